"""Drawing of robots: videos rendered in a process of their own, and interactive viewers. Imports only ``utils``."""
