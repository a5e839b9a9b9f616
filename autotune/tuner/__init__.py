"""The trial loop: boot, measure, judge, restore."""
