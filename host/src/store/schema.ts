/**
 * The database's shape, as steps that are only ever added to. `user_version` counts the steps a file has taken.
 *
 * Strict tables: a wrong type is an error at the write, not a surprise at the read. Output hangs on the exec by
 * an integer key and goes with it.
 */
export const migrations: readonly string[] = [
  `
  CREATE TABLE counters (
    name  TEXT PRIMARY KEY,
    value INTEGER NOT NULL
  ) STRICT;
  INSERT INTO counters (name, value) VALUES ('instance', 0);

  CREATE TABLE sandboxes (
    id               TEXT PRIMARY KEY,
    owner            TEXT NOT NULL,
    task             TEXT NOT NULL,
    layers           TEXT NOT NULL,          -- JSON: [{module, digest}], in the order they were asked for
    created_ms       INTEGER NOT NULL,
    last_active_ms   INTEGER NOT NULL,
    cpu              REAL NOT NULL,
    memory_mb        INTEGER NOT NULL,
    max_lifetime_s   INTEGER NOT NULL,       -- 0: no end
    allow_net        TEXT,                   -- JSON: [string]
    warnings         TEXT NOT NULL,          -- JSON: [{code, message}]
    limits           TEXT NOT NULL,          -- JSON: what the driver is told
    upper_kind       TEXT NOT NULL,
    upper_generation INTEGER NOT NULL,
    active_snapshot  TEXT,
    phase            TEXT NOT NULL CHECK (phase IN ('creating', 'ready', 'failed', 'destroying')),
    failure          TEXT,
    instance         INTEGER NOT NULL,       -- the latest start; written before it is tried
    next_seq         INTEGER NOT NULL,
    pending          TEXT,                   -- JSON: the operation a crash would interrupt
    revision         INTEGER NOT NULL        -- rises at each change that sandbox.json shows
  ) STRICT;

  CREATE TABLE execs (
    key            INTEGER PRIMARY KEY,
    sandbox        TEXT NOT NULL REFERENCES sandboxes (id) ON DELETE CASCADE,
    seq            INTEGER NOT NULL,
    exec_id        TEXT NOT NULL,
    kind           TEXT NOT NULL CHECK (kind IN ('exec', 'stream', 'job')),
    cmd            TEXT NOT NULL,
    workdir        TEXT NOT NULL,
    timeout_ms     INTEGER,
    started_ms     INTEGER NOT NULL,
    kill_wanted    INTEGER NOT NULL DEFAULT 0,
    finished_ms    INTEGER,                  -- NULL: running, or the daemon died
    exit_code      INTEGER,
    signal         INTEGER,
    timed_out      INTEGER NOT NULL DEFAULT 0,
    reason         TEXT,
    stdout_bytes   INTEGER NOT NULL DEFAULT 0,  -- taken from the guest, kept or not: the offset to attach at
    stderr_bytes   INTEGER NOT NULL DEFAULT 0,
    stored_bytes   INTEGER NOT NULL DEFAULT 0,
    UNIQUE (sandbox, seq)
  ) STRICT;
  CREATE INDEX execs_unfinished ON execs (sandbox) WHERE finished_ms IS NULL;

  CREATE TABLE output (
    key    INTEGER PRIMARY KEY,
    exec   INTEGER NOT NULL REFERENCES execs (key) ON DELETE CASCADE,
    stream INTEGER NOT NULL,                 -- 1 stdout, 2 stderr
    data   BLOB NOT NULL
  ) STRICT;
  CREATE INDEX output_by_exec ON output (exec);

  CREATE TABLE job_lines (
    exec   INTEGER NOT NULL REFERENCES execs (key) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    stream INTEGER NOT NULL,
    data   BLOB NOT NULL,                    -- with its newline, where it had one
    PRIMARY KEY (exec, number)
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE snapshots (
    key        INTEGER PRIMARY KEY,
    sandbox    TEXT NOT NULL REFERENCES sandboxes (id) ON DELETE CASCADE,
    label      TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    size       INTEGER NOT NULL,
    digest     TEXT,                         -- NULL until it was computed
    base       TEXT,                         -- the snapshot that was active when this one was taken
    layers     TEXT NOT NULL,                -- JSON: as in sandboxes, when it was taken
    UNIQUE (sandbox, label)
  ) STRICT;
  `,
  `
  ALTER TABLE sandboxes ADD COLUMN policy TEXT;                       -- JSON: the full policy; NULL: allow_net is it
  ALTER TABLE sandboxes ADD COLUMN secrets TEXT NOT NULL DEFAULT '"all"'; -- JSON: 'all' or [name]
  ALTER TABLE sandboxes ADD COLUMN trust TEXT;                        -- digest of the trust layer it was started on
  `,
  `
  -- What the host can't enforce is not kept any more: it is asked anew.
  UPDATE sandboxes SET warnings = (
    SELECT json_group_array(json(value)) FROM json_each(warnings)
    WHERE value ->> 'code' IN ('unsupported_field', 'unknown_field')
  );
  `,
  `
  ALTER TABLE sandboxes ADD COLUMN own_secrets TEXT NOT NULL DEFAULT '[]'; -- JSON: [name]
  ALTER TABLE sandboxes ADD COLUMN upstream TEXT;                           -- NULL: the default proxy, if any
  `,
  `
  ALTER TABLE sandboxes ADD COLUMN upper_made_ms INTEGER NOT NULL DEFAULT 0; -- by create, restore, or a start that missed it
  UPDATE sandboxes SET upper_made_ms = created_ms;
  `,
  `
  ALTER TABLE sandboxes ADD COLUMN name TEXT;
  ALTER TABLE sandboxes ADD COLUMN labels TEXT NOT NULL DEFAULT '{}';         -- JSON: {key: value}
  ALTER TABLE sandboxes ADD COLUMN env TEXT NOT NULL DEFAULT '{}';            -- JSON: variables of every command
  ALTER TABLE sandboxes ADD COLUMN lifetime_from_ms INTEGER NOT NULL DEFAULT 0; -- where its lifetime counts from
  ALTER TABLE sandboxes ADD COLUMN idle_timeout_s INTEGER NOT NULL DEFAULT 0; -- 0: none
  ALTER TABLE sandboxes ADD COLUMN on_timeout TEXT NOT NULL DEFAULT 'destroy';
  ALTER TABLE sandboxes ADD COLUMN rest TEXT;                                 -- JSON: how it rests; NULL: it runs
  UPDATE sandboxes SET lifetime_from_ms = created_ms;
  `,
  `
  CREATE TABLE api_keys (
    id           TEXT PRIMARY KEY,
    hash         TEXT NOT NULL UNIQUE,       -- SHA-256 of the token, lower-case hex; the token is nowhere
    name         TEXT NOT NULL,
    owner        TEXT NOT NULL,
    scope        TEXT NOT NULL,
    created_ms   INTEGER NOT NULL,
    expires_ms   INTEGER,                    -- NULL: it holds until it is removed
    last_used_ms INTEGER                     -- a minute late
  ) STRICT;
  CREATE TABLE quotas (
    owner     TEXT PRIMARY KEY,              -- NULL in a column: not bounded
    sandboxes INTEGER,
    memory_mb INTEGER,
    cpu       REAL,
    disk_mb   INTEGER,
    execs     INTEGER
  ) STRICT;
  `,
  `
  ALTER TABLE execs ADD COLUMN process TEXT;            -- JSON: how a process of /v1 was started; its kind says 'stream'
  ALTER TABLE execs ADD COLUMN tag TEXT;
  ALTER TABLE execs ADD COLUMN stdin BLOB;              -- given at the start, until it has ended
  ALTER TABLE execs ADD COLUMN stdin_ended INTEGER NOT NULL DEFAULT 0;
  CREATE INDEX execs_tagged ON execs (sandbox, tag) WHERE tag IS NOT NULL;

  CREATE TABLE process_output (
    exec     INTEGER NOT NULL REFERENCES execs (key) ON DELETE CASCADE,
    position INTEGER NOT NULL,                -- bytes of both streams before it, kept or not
    stream   INTEGER NOT NULL,
    data     BLOB NOT NULL,
    PRIMARY KEY (exec, position)
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE idempotency (
    caller     TEXT NOT NULL,                 -- the owner of the caller's key; empty: the operator
    key        TEXT NOT NULL,
    operation  TEXT NOT NULL,
    digest     TEXT NOT NULL,
    sandbox    TEXT NOT NULL REFERENCES sandboxes (id) ON DELETE CASCADE,
    seq        INTEGER,                       -- of the command; NULL: the sandbox itself
    created_ms INTEGER NOT NULL,
    PRIMARY KEY (caller, key)
  ) STRICT;
  CREATE INDEX idempotency_by_sandbox ON idempotency (sandbox);
  CREATE INDEX idempotency_by_age ON idempotency (created_ms);
  `,
  `
  CREATE TABLE events (
    id      INTEGER PRIMARY KEY AUTOINCREMENT, -- never used again: clients resume behind it
    at_ms   INTEGER NOT NULL,
    type    TEXT NOT NULL,
    sandbox TEXT NOT NULL,                     -- no reference: it may be gone
    owner   TEXT NOT NULL,
    data    TEXT NOT NULL                      -- JSON: {name: scalar}
  ) STRICT;
  CREATE INDEX events_by_owner ON events (owner);
  CREATE INDEX events_by_sandbox ON events (sandbox);
  CREATE TABLE event_gaps (
    owner  TEXT PRIMARY KEY,                   -- '*': everybody
    before INTEGER NOT NULL                    -- events with smaller ids were removed
  ) STRICT;
  `,
  `
  CREATE TABLE webhooks (
    id              TEXT PRIMARY KEY,
    url             TEXT NOT NULL,
    types           TEXT NOT NULL,             -- JSON: [type]; none: all
    owner           TEXT,                      -- NULL: everybody's
    secret          TEXT NOT NULL,             -- what is sent is signed with it
    enabled         INTEGER NOT NULL,
    created_ms      INTEGER NOT NULL,
    position        INTEGER NOT NULL,          -- id of the last event that was taken or given up
    last_success_ms INTEGER,
    last_failure_ms INTEGER,
    last_error      TEXT,
    given_up        INTEGER NOT NULL,
    missed_before   INTEGER                    -- events with smaller ids were removed undelivered
  ) STRICT;
  `,
  `
  ALTER TABLE snapshots ADD COLUMN labels TEXT NOT NULL DEFAULT '{}';         -- JSON: {key: value}
  `,
  `
  -- In host names of its ports. As \`labels.ts\` makes them; the revision rises for the sake of sandbox.json.
  ALTER TABLE sandboxes ADD COLUMN host_label TEXT;
  UPDATE sandboxes SET revision = revision + 1, host_label = CASE
    WHEN length(id) <= 50 AND id NOT GLOB '*[^a-z0-9-]*' AND id NOT GLOB '-*' AND id NOT GLOB '*-' THEN id
    ELSE ltrim(trim(substr(replace(lower(id), '_', '-'), 1, 37), '-') || '-' || lower(hex(randomblob(6))), '-')
  END;
  CREATE UNIQUE INDEX sandboxes_by_host_label ON sandboxes (host_label);
  `,
  `
  CREATE TABLE ports (
    sandbox TEXT NOT NULL REFERENCES sandboxes (id) ON DELETE CASCADE,
    port    INTEGER NOT NULL,
    access  TEXT NOT NULL,                   -- of those that were set; a port without a row wants a token
    PRIMARY KEY (sandbox, port)
  ) STRICT, WITHOUT ROWID;
  `,
  `
  ALTER TABLE sandboxes ADD COLUMN mounts TEXT NOT NULL DEFAULT '[]'; -- JSON: [{id, volume, host, path, mode}]
  CREATE TABLE volumes (
    id          TEXT PRIMARY KEY,
    owner       TEXT NOT NULL,
    name        TEXT NOT NULL,
    labels      TEXT NOT NULL,               -- JSON: {key: value}
    kind        TEXT NOT NULL,
    bytes_max   INTEGER,                     -- NULL: nothing holds it to a size
    snapshot_of TEXT,
    created_ms  INTEGER NOT NULL,
    phase       TEXT NOT NULL CHECK (phase IN ('creating', 'ready', 'removing'))
  ) STRICT;
  `,
  `
  CREATE TABLE approvals (
    key        INTEGER PRIMARY KEY,
    id         TEXT NOT NULL UNIQUE,
    sandbox    TEXT NOT NULL REFERENCES sandboxes (id) ON DELETE CASCADE,
    asked      TEXT NOT NULL,                -- JSON: what the egress process has said of it
    state      TEXT NOT NULL CHECK (state IN ('pending', 'allowed', 'denied', 'timed_out', 'withdrawn')),
    scope      TEXT,                         -- of one that was allowed
    reason     TEXT,
    decided_by TEXT,
    decided_ms INTEGER
  ) STRICT;
  CREATE INDEX approvals_by_sandbox ON approvals (sandbox, key);

  CREATE TABLE standing_approvals (
    key        INTEGER PRIMARY KEY AUTOINCREMENT,
    rule       TEXT NOT NULL UNIQUE,         -- JSON: as in a policy's allow
    decided_by TEXT NOT NULL,
    decided_ms INTEGER NOT NULL
  ) STRICT;
  `,
  `
  CREATE TABLE ssh_keys (
    id         TEXT PRIMARY KEY,
    blob       TEXT NOT NULL UNIQUE,         -- the public key as SSH sends it, base64
    name       TEXT NOT NULL,
    owner      TEXT NOT NULL,
    scope      TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    expires_ms INTEGER                       -- NULL: it holds until it is removed
  ) STRICT;
  `,
  `
  CREATE TABLE ssh_sessions (
    key     BLOB NOT NULL,                   -- SHA-256 of the public key: one that is removed may be added again
    number  INTEGER NOT NULL,                -- of the key's logins
    session BLOB NOT NULL UNIQUE,            -- SHA-256 of the id of a session that has logged in
    PRIMARY KEY (key, number)
  ) STRICT, WITHOUT ROWID;
  `,
  `
  ALTER TABLE sandboxes ADD COLUMN image TEXT;                        -- JSON: the OCI image it was made from, and its defaults; NULL: none
  `,
  `
  ALTER TABLE sandboxes ADD COLUMN host_root TEXT;                    -- JSON: {uid, gid, root}; NULL: it has layers
  `,
  `
  ALTER TABLE sandboxes ADD COLUMN backend TEXT NOT NULL DEFAULT 'chroot';
  `,
  `
  CREATE TABLE group_tiers (
    name TEXT PRIMARY KEY,
    body TEXT NOT NULL                       -- JSON: the matrix
  ) STRICT;
  CREATE TABLE groups (
    key        INTEGER PRIMARY KEY AUTOINCREMENT, -- never used again: its volume is named by it
    name       TEXT NOT NULL UNIQUE,
    body       TEXT NOT NULL,                -- JSON: as it was made
    volume     TEXT,                         -- NULL: no run has had one yet
    created_ms INTEGER NOT NULL,
    created_by TEXT                          -- the group whose agent made it; NULL: a client of the API
  ) STRICT;
  CREATE TABLE chats (
    name       TEXT PRIMARY KEY,
    grp        TEXT NOT NULL REFERENCES groups (name) ON DELETE CASCADE,
    body       TEXT NOT NULL,                -- JSON: as it was made
    created_ms INTEGER NOT NULL
  ) STRICT;
  CREATE INDEX chats_by_group ON chats (grp);
  CREATE TABLE group_runs (
    key           INTEGER PRIMARY KEY AUTOINCREMENT,
    grp           TEXT NOT NULL REFERENCES groups (name) ON DELETE CASCADE,
    chat          TEXT NOT NULL REFERENCES chats (name) ON DELETE CASCADE,
    state         TEXT NOT NULL CHECK (state IN ('queued', 'running', 'done', 'failed')),
    attempt       INTEGER NOT NULL,
    not_before_ms INTEGER NOT NULL,
    reason        TEXT,
    exit_code     INTEGER,
    sandbox       TEXT,                      -- written before it is made; NULL: nothing of it is left
    begun         INTEGER NOT NULL,          -- written before its command is started
    acted         INTEGER NOT NULL,
    position      INTEGER NOT NULL,          -- in the command's output: everything before it is told
    output_bytes  INTEGER NOT NULL,
    truncated     INTEGER NOT NULL,
    depth         INTEGER NOT NULL,
    created_ms    INTEGER NOT NULL,
    started_ms    INTEGER,
    finished_ms   INTEGER
  ) STRICT;
  CREATE INDEX group_runs_by_group ON group_runs (grp, key);
  CREATE INDEX group_runs_by_chat ON group_runs (chat);
  CREATE INDEX group_runs_open ON group_runs (key) WHERE state IN ('queued', 'running') OR sandbox IS NOT NULL;
  CREATE TABLE chat_messages (
    key      INTEGER PRIMARY KEY AUTOINCREMENT,
    chat     TEXT NOT NULL REFERENCES chats (name) ON DELETE CASCADE,
    sender   TEXT NOT NULL,
    text     TEXT NOT NULL,
    id       TEXT,                           -- of the chat system
    starting INTEGER NOT NULL,
    depth    INTEGER NOT NULL,
    run      INTEGER REFERENCES group_runs (key) ON DELETE CASCADE, -- NULL: it waits
    at_ms    INTEGER NOT NULL,
    UNIQUE (chat, id)
  ) STRICT;
  CREATE INDEX chat_messages_by_run ON chat_messages (run);
  CREATE INDEX chat_messages_waiting ON chat_messages (chat, key) WHERE run IS NULL;
  CREATE TABLE chat_out (
    key      INTEGER PRIMARY KEY AUTOINCREMENT, -- never used again: clients resume behind it
    chat     TEXT NOT NULL REFERENCES chats (name) ON DELETE CASCADE,
    text     TEXT NOT NULL,
    by_group TEXT NOT NULL,
    run      INTEGER NOT NULL,
    action   TEXT,                           -- the agent's id of it; NULL: its command printed it
    at_ms    INTEGER NOT NULL
  ) STRICT;
  CREATE INDEX chat_out_by_chat ON chat_out (chat, key);
  CREATE TABLE group_actions (
    key        INTEGER PRIMARY KEY AUTOINCREMENT,
    grp        TEXT NOT NULL REFERENCES groups (name) ON DELETE CASCADE,
    id         TEXT NOT NULL,                -- the agent's
    run        INTEGER NOT NULL,
    request    TEXT NOT NULL,                -- JSON: all of it
    state      TEXT NOT NULL CHECK (state IN ('done', 'held', 'denied', 'failed')),
    rule       TEXT NOT NULL,
    reason     TEXT,
    asked_ms   INTEGER NOT NULL,
    decided_ms INTEGER,
    UNIQUE (grp, id)
  ) STRICT;
  CREATE INDEX group_actions_by_run ON group_actions (run);
  CREATE INDEX group_actions_held ON group_actions (grp, key) WHERE state = 'held';
  `,
  `
  ALTER TABLE group_runs ADD COLUMN isolated INTEGER NOT NULL DEFAULT 0;
  CREATE TABLE schedules (
    key        INTEGER PRIMARY KEY AUTOINCREMENT,
    chat       TEXT NOT NULL REFERENCES chats (name) ON DELETE CASCADE,
    name       TEXT NOT NULL,
    body       TEXT NOT NULL,                -- JSON: as it was made
    made_by    TEXT REFERENCES groups (name) ON DELETE CASCADE, -- NULL: a client of the API
    allowed    INTEGER NOT NULL,             -- a person let the agent make it
    state      TEXT NOT NULL CHECK (state IN ('active', 'paused', 'done')),
    paused_by  TEXT,
    told_ms    INTEGER NOT NULL,             -- when the next time was told
    next_ms    INTEGER CHECK ((next_ms IS NOT NULL) = (state = 'active')),
    last_run   INTEGER,
    created_ms INTEGER NOT NULL,
    UNIQUE (chat, name)
  ) STRICT;
  CREATE INDEX schedules_by_maker ON schedules (made_by);
  CREATE INDEX schedules_due ON schedules (next_ms) WHERE state = 'active';
  CREATE INDEX schedules_told ON schedules (told_ms) WHERE state = 'active';
  CREATE TABLE schedule_lines (
    key      INTEGER PRIMARY KEY,
    schedule INTEGER NOT NULL REFERENCES schedules (key) ON DELETE CASCADE,
    due_ms   INTEGER NOT NULL,
    at_ms    INTEGER NOT NULL,
    verdict  TEXT NOT NULL CHECK (verdict IN ('started', 'skipped', 'refused')),
    reason   TEXT,
    run      INTEGER
  ) STRICT;
  CREATE INDEX schedule_lines_by_schedule ON schedule_lines (schedule, key);
  `,
  `
  ALTER TABLE chats ADD COLUMN session TEXT;  -- its volume's name, written before that is made; NULL: no run has had one yet
  `,
  `
  ALTER TABLE group_runs ADD COLUMN warm INTEGER NOT NULL DEFAULT 0; -- an earlier run was in its sandbox
  ALTER TABLE group_runs ADD COLUMN warm_until_ms INTEGER;           -- it is kept so long for the chat's next run; NULL: it is not
  `,
  `
  ALTER TABLE snapshots ADD COLUMN memory TEXT; -- JSON: SavedMemory; NULL: it was taken without
  `,
];
