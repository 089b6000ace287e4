"""Jobs of this machine: started, watched until they have ended, and ended when asked. For local and Docker alike."""
