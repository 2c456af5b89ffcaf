for (const part of document.querySelectorAll(".scripted")) part.hidden = false;
if (functions) startTable();
if (functions && data.calls) startCalls();
if (functions && data.stacks) startFlame();
if (data.timeline) startTimeline();
// Print what is folded on a screen.
addEventListener("beforeprint", () => {
  for (const part of document.querySelectorAll("details.card")) part.open = true;
});
document.documentElement.dataset.ready = String(Math.round(performance.now()));
