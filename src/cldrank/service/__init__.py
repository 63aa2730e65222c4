"""The service: a ranker behind HTTP.

`layout` knows the features, `json_requests` and `arrow_requests` read a request, `served` scores it, `answers` writes
the answer, and `request_error` says why there is none. `app` puts these behind paths, and `guard` before them all;
`one_process` and `supervisor` run the app in one process or in several; `swapping` exchanges the ranker; `hangups` hold
back the signal for that during the start. `serving` is the way in, and can be imported where the extra `serve` is not
installed.
"""
