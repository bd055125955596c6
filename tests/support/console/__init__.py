"""The console served on a thread of this process, its visitors, and Chromium."""
