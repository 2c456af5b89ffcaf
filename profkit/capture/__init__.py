"""Taking a run: start the target with the agent in its environment, wait, and pack what the agents wrote.

``launcher`` starts and waits, ``agent`` is what runs inside the target, ``packer`` turns the spool directory
into a `profkit.model.Run`, ``host`` reads what the machine is and has done.
"""
