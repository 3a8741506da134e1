def main(settings, say):
    return {}
