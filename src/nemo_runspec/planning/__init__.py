"""Recipe and configuration become one frozen plan. (`nemo_runspec.plan` is the function that makes one.)"""
