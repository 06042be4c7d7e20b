"""Incidents as series of metrics, judged by the rules of the alarms: who is told, and by when."""
