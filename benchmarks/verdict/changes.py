"""The change of source of each program: one function, as a developer could have written it, several times slower."""

from __future__ import annotations

from sample_profiles.changes import Change

CHANGES = {
    "linear_algebra": Change(
        "ridge_path",
        "inverts every matrix instead of solving for one right side",
        "    return [np.linalg.solve(gram + strength * identity, moments) for strength in strengths]\n",
        "    return [np.linalg.inv(gram + strength * identity) @ moments for strength in strengths]\n",
    ),
    "heat_grid": Change(
        "step",
        "rolls the whole field four times instead of slicing it",
        "    laplace = field[2:, 1:-1] + field[:-2, 1:-1] + field[1:-1, 2:] + field[1:-1, :-2] - 4 * inner\n",
        "    near = np.roll(field, 1, 0) + np.roll(field, -1, 0) + np.roll(field, 1, 1) + np.roll(field, -1, 1)\n"
        "    laplace = (near - 4 * field)[1:-1, 1:-1]\n",
    ),
    "log_parser": Change(
        "score",
        "takes in the whole record instead of its path",
        '    for character in record["path"]:\n',
        "    for character in json.dumps(record, sort_keys=True):\n",
    ),
    "api_client": Change(
        "words",
        "looks at every eighth byte instead of every 24th",
        "    for start in range(0, len(body) - 8, 24):\n",
        "    for start in range(0, len(body) - 8, 6):\n",
    ),
    "ledger": Change(
        "checksum",
        "reduces by a modulus digit by digit",
        '            value = (value * 33 + ord(character) + entry["amount"]) & 0xFFFFFFFF\n',
        "            for part in (7, 3, 11):\n"
        '                value = (value * part + ord(character) + entry["amount"]) % 4294967291\n',
    ),
    "augment_pool": Change(
        "blur",
        "a wider window",
        '    padded = np.pad(image, ((2, 2), (2, 2), (0, 0)), mode="edge")\n    side = len(image)\n'
        "    return sum(padded[i : i + side, j : j + side] for i in range(5) for j in range(5)) / 25\n",
        '    padded = np.pad(image, ((4, 4), (4, 4), (0, 0)), mode="edge")\n    side = len(image)\n'
        "    return sum(padded[i : i + side, j : j + side] for i in range(9) for j in range(9)) / 81\n",
    ),
    "train_loader": Change(
        "penalty",
        "adds up the penalty row by row",
        "    return sum((p**2).sum() for p in net.parameters()) * 1e-5\n",
        "    return sum((row**2).sum() for p in net.parameters() for row in p.reshape(len(p), -1)) * 1e-5\n",
    ),
    "infer_omp": Change(
        "attention",
        "one sequence and one head at a time, in double precision",
        "    scores = q @ k.transpose(-1, -2) / (WIDTH // HEADS) ** 0.5\n    return torch.softmax(scores, -1) @ v\n",
        "    out = torch.empty_like(q)\n    for b in range(len(q)):\n        for h in range(HEADS):\n"
        "            scores = q[b, h].double() @ k[b, h].double().T / (WIDTH // HEADS) ** 0.5\n"
        "            out[b, h] = (torch.softmax(scores, -1) @ v[b, h].double()).float()\n    return out\n",
    ),
    "vision_cv": Change(
        "smooth",
        "a wider filter",
        "    return cv2.bilateralFilter(frame, 5, 40, 40)\n",
        "    return cv2.bilateralFilter(frame, 11, 40, 40)\n",
    ),
    "spectra": Change(
        "power",
        "transforms to complex numbers and throws half of them away",
        '    return np.abs(scipy.fft.rfft(signals, axis=1, workers=SETTINGS["threads"])) ** 2\n',
        '    whole = scipy.fft.fft(signals.astype(complex), axis=1, workers=SETTINGS["threads"])\n'
        "    return np.hypot(whole.real, whole.imag)[:, : signals.shape[1] // 2 + 1] ** 2\n",
    ),
    "thumbnails": Change(
        "sharpen",
        "sharpens three times with a wider mask",
        "    return image.filter(ImageFilter.UnsharpMask(3, 120, 2))\n",
        "    for _ in range(3):\n        image = image.filter(ImageFilter.UnsharpMask(9, 60, 2))\n    return image\n",
    ),
    "pixels_ne": Change(
        "percentiles",
        "sorts every pixel",
        "    return np.percentile(picture[::4, ::4], (1, 50, 99))\n",
        "    return np.sort(picture[::2, ::2], axis=None)[[0, picture.size // 8, -1]]\n",
    ),
    "pipeline_mpi": Change(
        "normalise",
        "row by row",
        "    return (x - x.mean(axis=1, keepdims=True)) / (x.std(axis=1, keepdims=True) + 1e-5)\n",
        "    return np.stack([(row - row.mean()) / (row.std() + 1e-5) for row in x])\n",
    ),
    "digests": Change(
        "digest",
        "three times as many rounds",
        '    return hashlib.pbkdf2_hmac("sha256", chunk[:64], b"salt", 4000).hex()\n',
        '    return hashlib.pbkdf2_hmac("sha256", chunk[:64], b"salt", 12000).hex()\n',
    ),
    "stream_nvtx": Change(
        "load",
        "turns every byte into a Python number on the way",
        "    return np.frombuffer(read_object(key, SIDE * SIDE), np.uint8).reshape(SIDE, SIDE).astype(np.float64)\n",
        "    data = read_object(key, SIDE * SIDE)\n"
        "    return np.array([float(value) for value in data]).reshape(SIDE, SIDE)\n",
    ),
    "neighbours_np": Change(
        "nearest",
        "sorts all distances",
        "    return np.argpartition(table, k, axis=1)[:, :k]\n",
        '    return np.argsort(table, axis=1, kind="stable")[:, :k]\n',
    ),
    "puzzles": Change(
        "checksum",
        "reduces by every position's own modulus",
        "        total = (total * 11 + position * value) % 1000003\n",
        "        for part in (3, 7, 11, 13):\n"
        "            total = (total * part + position * value) % (1000003 + position)\n",
    ),
    "archive_pool": Change(
        "squeeze",
        "tries a slower preset as well",
        "    return min(len(bz2.compress(data)), len(lzma.compress(data, preset=0)))\n",
        "    return min(len(bz2.compress(data)), *(len(lzma.compress(data, preset=p)) for p in (0, 3, 6)))\n",
    ),
    "train_conv": Change(
        "augment",
        "turns every image by itself",
        "    flipped = images.flip(3)\n",
        "    flipped = torch.stack([torch.stack([row.flip(0) for row in image]).flip(1) for image in images])\n"
        "    flipped = flipped.flip(2)\n",
    ),
    "poll_pool": Change(
        "weigh",
        "goes over the values four times, with another base",
        "    for value in values:\n        total = (total * 31 + value) % 999983\n",
        "    for base in (31, 37, 41, 43):\n        for value in values:\n"
        "            total = (total * base + value) % 999983\n",
    ),
    "poll_fetch": Change(
        "entropy",
        "counts every fourth byte instead of every 16th",
        "    for value in body[::16]:\n",
        "    for value in body[::4]:\n",
    ),
    "poll_queue": Change(
        "relax",
        "eighteen rounds instead of six",
        "    for _ in range(6):\n",
        "    for _ in range(18):\n",
    ),
    "boost_trees": Change(
        "encode",
        "looks up each row's category in the whole table",
        "    return (ones / np.maximum(counts, 1))[codes]\n",
        "    return np.array([labels[codes == code].mean() for code in codes])\n",
    ),
    "count_cells": Change(
        "split",
        "takes all maxima of some height as seeds",
        "    seeds = measure.label(distance > 0.6 * distance.max())\n",
        "    seeds = measure.label(morphology.h_maxima(distance, 1.0))\n",
    ),
    "evolve_routes": Change(
        "leg",
        "measures along the globe",
        "    return math.hypot(PLACES[a][0] - PLACES[b][0], PLACES[a][1] - PLACES[b][1])\n",
        "    (x, y), (u, v) = PLACES[a], PLACES[b]\n"
        "    half = math.sin((y - v) / 2) ** 2 + math.cos(y) * math.cos(v) * math.sin((x - u) / 2) ** 2\n"
        "    return 2 * math.asin(math.sqrt(half))\n",
    ),
    "cross_validate": Change(
        "interval",
        "ten times as many resamples",
        "for _ in range(200)]\n",
        "for _ in range(2000)]\n",
    ),
    "orbits": Change(
        "mutual",
        "one body after the other",
        "    apart = place[None] - place[:, None]\n"
        '    cubes = (np.einsum("ijk,ijk->ij", apart, apart) + 1e-4) ** 1.5\n'
        '    return np.einsum("j,ijk->ik", mass, apart / cubes[..., None])\n',
        "    pull = np.zeros_like(place)\n"
        "    for i, own in enumerate(place):\n"
        "        apart = place - own\n"
        "        pull[i] = mass @ (apart / ((apart**2).sum(axis=1) + 1e-4)[:, None] ** 1.5)\n"
        "    return pull\n",
    ),
    "join_frames": Change(
        "label",
        "writes out every column",
        "    return f\"{row['borough']}-{row['borough_end']}-{kind}:{row['fare']:.2f}\"\n",
        '    words = [f"{key.title()}={str(value).strip():>12}" for key, value in sorted(row.items())]\n'
        '    return "-".join([*words, kind]).casefold()\n',
    ),
    "climate_blocks": Change(
        "fit_line",
        "fits place by place",
        "    x = np.arange(len(series)) - (len(series) - 1) / 2\n"
        "    return x @ (series - series.mean(axis=0)) / (x @ x)\n",
        "    return np.array([np.polyfit(np.arange(len(series)), place, 1)[0] for place in series.T])\n",
    ),
    "train_words": Change(
        "clip",
        "clips row by row",
        "    nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n",
        "    for parameter in model.parameters():\n"
        "        for row in parameter.grad.reshape(len(parameter), -1):\n"
        "            row.mul_(1.0 / max(1.0, float(row.norm())))\n",
    ),
    "pack_reports": Change(
        "totals",
        "adds up every name with a pass of its own",
        "    found = Counter()\n    for name, amount, _ in rows:\n        found[name] += amount\n    return found\n",
        "    names = sorted({row[0] for row in rows})\n"
        "    return Counter({name: sum(amount for own, amount, _ in rows if own == name) for name in names})\n",
    ),
    "sort_events": Change(
        "gaps",
        "reads a number digit by digit",
        '        at, _, source = line.partition(" ")\n',
        '        number, _, source = line.partition(" ")\n'
        '        whole, _, part = number.partition(".")\n'
        "        at = float(whole) + sum(int(digit) / 10 ** (i + 1) for i, digit in enumerate(part))\n",
    ),
    "search_logs": Change(
        "users",
        "takes every line apart by its fields",
        '    return Counter(line.split("user=")[1][:4] for line in lines)\n',
        "    found = Counter()\n"
        "    for line in lines:\n"
        '        for field in sorted(line.lower().split(), key=lambda field: field.partition("=")):\n'
        '            name, _, value = field.partition("=")\n'
        '            found[value[:4]] += name == "user"\n'
        "    return found\n",
    ),
}
