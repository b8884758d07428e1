#!/usr/bin/env python3
"""Prints what TensorBoard's own reader finds in a folder of event files: {tag: [[step, value], ...]}.

usage: tensorboard_scalars.py FOLDER
"""
import json
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

events = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0})
events.Reload()
print(json.dumps({tag: [[point.step, point.value] for point in events.Scalars(tag)] for tag in events.Tags()["scalars"]}))
