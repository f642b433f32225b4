"""Where each operation of the API is found. Written by tools/python-sdk.ts from contract/openapi.json."""

from __future__ import annotations

from typing import NamedTuple

#: The release that this SDK was made for.
VERSION = "0.1.0"


class Operation(NamedTuple):
    id: str
    method: str
    path: str
    query: tuple[str, ...]
    takes_json: bool
    #: The same request under the same Idempotency-Key is answered again, not done again.
    takes_key: bool


OPERATIONS = {
    "sandbox.create": Operation("sandbox.create", "POST", "/v1/sandboxes", (), True, True),
    "sandbox.list": Operation("sandbox.list", "GET", "/v1/sandboxes", ("limit", "cursor", "state", "label", "name", "owner"), False, False),
    "sandbox.run": Operation("sandbox.run", "POST", "/v1/run", (), True, False),
    "sandbox.get": Operation("sandbox.get", "GET", "/v1/sandboxes/{id}", (), False, False),
    "sandbox.update": Operation("sandbox.update", "PATCH", "/v1/sandboxes/{id}", (), True, False),
    "sandbox.destroy": Operation("sandbox.destroy", "DELETE", "/v1/sandboxes/{id}", (), False, False),
    "sandbox.pause": Operation("sandbox.pause", "POST", "/v1/sandboxes/{id}/pause", (), True, False),
    "sandbox.resume": Operation("sandbox.resume", "POST", "/v1/sandboxes/{id}/resume", (), False, False),
    "process.exec": Operation("process.exec", "POST", "/v1/sandboxes/{id}/exec", (), True, True),
    "process.start": Operation("process.start", "POST", "/v1/sandboxes/{id}/processes", (), True, True),
    "process.list": Operation("process.list", "GET", "/v1/sandboxes/{id}/processes", ("state", "tag", "limit", "cursor"), False, False),
    "process.get": Operation("process.get", "GET", "/v1/sandboxes/{id}/processes/{process}", (), False, False),
    "process.output": Operation("process.output", "GET", "/v1/sandboxes/{id}/processes/{process}/output", ("after", "follow", "streams", "format", "stall"), False, False),
    "process.stdin": Operation("process.stdin", "POST", "/v1/sandboxes/{id}/processes/{process}/stdin", ("eof",), False, False),
    "process.resize": Operation("process.resize", "POST", "/v1/sandboxes/{id}/processes/{process}/resize", (), True, False),
    "process.signal": Operation("process.signal", "POST", "/v1/sandboxes/{id}/processes/{process}/signal", (), True, False),
    "process.wait": Operation("process.wait", "GET", "/v1/sandboxes/{id}/processes/{process}/wait", ("for", "text", "pattern", "after", "port", "timeout_ms"), False, False),
    "file.read": Operation("file.read", "GET", "/v1/sandboxes/{id}/files", ("path", "path_base64", "as"), False, False),
    "file.write": Operation("file.write", "PUT", "/v1/sandboxes/{id}/files", ("path", "path_base64", "as", "mode", "uid", "gid", "parents", "append"), False, False),
    "file.change": Operation("file.change", "PATCH", "/v1/sandboxes/{id}/files", ("path", "path_base64", "as"), True, False),
    "file.remove": Operation("file.remove", "DELETE", "/v1/sandboxes/{id}/files", ("path", "path_base64", "as", "recursive"), False, False),
    "file.stat": Operation("file.stat", "GET", "/v1/sandboxes/{id}/files/stat", ("path", "path_base64", "as", "follow"), False, False),
    "file.list": Operation("file.list", "GET", "/v1/sandboxes/{id}/files/list", ("path", "path_base64", "as", "limit", "cursor", "depth"), False, False),
    "file.glob": Operation("file.glob", "GET", "/v1/sandboxes/{id}/files/glob", ("path", "path_base64", "as", "limit", "cursor", "pattern"), False, False),
    "file.search": Operation("file.search", "GET", "/v1/sandboxes/{id}/files/search", ("path", "path_base64", "as", "text", "regex", "ignore_case", "pattern", "limit"), False, False),
    "file.make_directory": Operation("file.make_directory", "POST", "/v1/sandboxes/{id}/files/directory", ("as",), True, False),
    "file.move": Operation("file.move", "POST", "/v1/sandboxes/{id}/files/move", ("as",), True, False),
    "file.copy": Operation("file.copy", "POST", "/v1/sandboxes/{id}/files/copy", ("as",), True, False),
    "file.link": Operation("file.link", "POST", "/v1/sandboxes/{id}/files/link", ("as",), True, False),
    "file.watch": Operation("file.watch", "GET", "/v1/sandboxes/{id}/files/watch", ("path", "path_base64", "as", "recursive"), False, False),
    "file.pack": Operation("file.pack", "GET", "/v1/sandboxes/{id}/files/archive", ("path", "path_base64", "as"), False, False),
    "file.unpack": Operation("file.unpack", "PUT", "/v1/sandboxes/{id}/files/archive", ("path", "path_base64", "as", "uid", "gid", "parents", "keep_owner", "entries_max", "bytes_max"), False, False),
    "port.list": Operation("port.list", "GET", "/v1/sandboxes/{id}/ports", (), False, False),
    "port.set": Operation("port.set", "PUT", "/v1/sandboxes/{id}/ports/{port}", (), True, False),
    "port.url": Operation("port.url", "POST", "/v1/sandboxes/{id}/ports/{port}/url", (), True, False),
    "port.wait": Operation("port.wait", "GET", "/v1/sandboxes/{id}/ports/{port}/wait", ("timeout_ms",), False, False),
    "module.list": Operation("module.list", "GET", "/v1/modules", ("limit", "cursor"), False, False),
    "module.get": Operation("module.get", "GET", "/v1/modules/{name}", (), False, False),
    "module.import": Operation("module.import", "PUT", "/v1/modules/{name}", ("replace",), False, False),
    "module.remove": Operation("module.remove", "DELETE", "/v1/modules/{name}", (), False, False),
    "module.activate": Operation("module.activate", "POST", "/v1/sandboxes/{id}/modules", (), True, False),
    "snapshot.create": Operation("snapshot.create", "POST", "/v1/sandboxes/{id}/snapshots", (), True, False),
    "snapshot.list": Operation("snapshot.list", "GET", "/v1/sandboxes/{id}/snapshots", ("limit", "cursor", "label"), False, False),
    "snapshot.get": Operation("snapshot.get", "GET", "/v1/sandboxes/{id}/snapshots/{label}", (), False, False),
    "snapshot.update": Operation("snapshot.update", "PATCH", "/v1/sandboxes/{id}/snapshots/{label}", (), True, False),
    "snapshot.remove": Operation("snapshot.remove", "DELETE", "/v1/sandboxes/{id}/snapshots/{label}", (), False, False),
    "snapshot.restore": Operation("snapshot.restore", "POST", "/v1/sandboxes/{id}/restore", (), True, False),
    "snapshot.diff": Operation("snapshot.diff", "GET", "/v1/sandboxes/{id}/snapshots/{label}/diff", ("against", "limit", "cursor"), False, False),
    "snapshot.download": Operation("snapshot.download", "GET", "/v1/sandboxes/{id}/snapshots/{label}/file", (), False, False),
    "snapshot.upload": Operation("snapshot.upload", "PUT", "/v1/sandboxes/{id}/snapshots/{label}/file", (), False, False),
    "volume.create": Operation("volume.create", "POST", "/v1/volumes", (), True, False),
    "volume.list": Operation("volume.list", "GET", "/v1/volumes", ("limit", "cursor", "label"), False, False),
    "volume.get": Operation("volume.get", "GET", "/v1/volumes/{volume}", (), False, False),
    "volume.remove": Operation("volume.remove", "DELETE", "/v1/volumes/{volume}", (), False, False),
    "volume.snapshot": Operation("volume.snapshot", "POST", "/v1/volumes/{volume}/snapshots", (), True, False),
    "mount.attach": Operation("mount.attach", "POST", "/v1/sandboxes/{id}/mounts", (), True, False),
    "mount.list": Operation("mount.list", "GET", "/v1/sandboxes/{id}/mounts", (), False, False),
    "mount.detach": Operation("mount.detach", "DELETE", "/v1/sandboxes/{id}/mounts/{mount}", (), False, False),
    "policy.get": Operation("policy.get", "GET", "/v1/sandboxes/{id}/policy", (), False, False),
    "policy.set": Operation("policy.set", "PUT", "/v1/sandboxes/{id}/policy", (), True, False),
    "policy.test": Operation("policy.test", "POST", "/v1/sandboxes/{id}/policy/test", (), True, False),
    "policy.learn": Operation("policy.learn", "GET", "/v1/sandboxes/{id}/policy/learn", (), False, False),
    "policy.presets": Operation("policy.presets", "GET", "/v1/policy/presets", (), False, False),
    "egress.decisions": Operation("egress.decisions", "GET", "/v1/sandboxes/{id}/egress", ("kind", "verdict", "host", "follow", "after", "limit"), False, False),
    "approval.list": Operation("approval.list", "GET", "/v1/approvals", ("limit", "cursor", "state", "sandbox"), False, False),
    "approval.get": Operation("approval.get", "GET", "/v1/approvals/{approval}", (), False, False),
    "approval.decide": Operation("approval.decide", "POST", "/v1/approvals/{approval}", (), True, False),
    "approval.standing_list": Operation("approval.standing_list", "GET", "/v1/standing-approvals", (), False, False),
    "approval.standing_remove": Operation("approval.standing_remove", "DELETE", "/v1/standing-approvals/{standing}", (), False, False),
    "secret.list": Operation("secret.list", "GET", "/v1/secrets", (), False, False),
    "secret.set": Operation("secret.set", "PUT", "/v1/secrets/{secret}", (), True, False),
    "secret.remove": Operation("secret.remove", "DELETE", "/v1/secrets/{secret}", (), False, False),
    "key.create": Operation("key.create", "POST", "/v1/keys", (), True, False),
    "key.list": Operation("key.list", "GET", "/v1/keys", ("limit", "cursor", "owner"), False, False),
    "key.self": Operation("key.self", "GET", "/v1/keys/self", (), False, False),
    "key.get": Operation("key.get", "GET", "/v1/keys/{key}", (), False, False),
    "key.remove": Operation("key.remove", "DELETE", "/v1/keys/{key}", (), False, False),
    "owner.list": Operation("owner.list", "GET", "/v1/owners", ("limit", "cursor"), False, False),
    "owner.quota": Operation("owner.quota", "GET", "/v1/owners/{owner}/quota", (), False, False),
    "owner.set_quota": Operation("owner.set_quota", "PUT", "/v1/owners/{owner}/quota", (), True, False),
    "audit.list": Operation("audit.list", "GET", "/v1/audit", ("limit", "cursor", "owner", "sandbox", "operation", "decision", "since"), False, False),
    "ticket.create": Operation("ticket.create", "POST", "/v1/tickets", (), True, False),
    "sandbox.usage": Operation("sandbox.usage", "GET", "/v1/sandboxes/{id}/usage", (), False, False),
    "event.list": Operation("event.list", "GET", "/v1/events", ("sandbox", "type", "owner", "after", "cursor", "limit", "follow"), False, False),
    "webhook.create": Operation("webhook.create", "POST", "/v1/webhooks", (), True, False),
    "webhook.list": Operation("webhook.list", "GET", "/v1/webhooks", (), False, False),
    "webhook.get": Operation("webhook.get", "GET", "/v1/webhooks/{webhook}", (), False, False),
    "webhook.update": Operation("webhook.update", "PATCH", "/v1/webhooks/{webhook}", (), True, False),
    "webhook.remove": Operation("webhook.remove", "DELETE", "/v1/webhooks/{webhook}", (), False, False),
    "webhook.test": Operation("webhook.test", "POST", "/v1/webhooks/{webhook}/test", (), False, False),
    "daemon.info": Operation("daemon.info", "GET", "/v1/info", (), False, False),
}
