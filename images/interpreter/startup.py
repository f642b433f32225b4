# Run silently in every new Python kernel. A data frame shows its first rows as JSON as well, without importing pandas.
def _squash_startup():
    import json

    def rows(frame):
        first = frame.iloc[:100, :100]
        return {**json.loads(first.to_json(orient="split", date_format="iso", default_handler=str)), "rows": len(frame)}

    formatter = get_ipython().display_formatter.formatters["application/json"]
    formatter.for_type_by_name("pandas.core.frame", "DataFrame", rows)


_squash_startup()
del _squash_startup
