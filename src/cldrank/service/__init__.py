"""The service: a ranker behind HTTP.

`requests` reads a body, `served` ranks, answers and exchanges the ranker when its folder changes, `app` puts these
behind paths, and `serving` runs the app in one process or in several. Only `serving` can be imported where the extra
`serve` is not installed.
"""
