/** The rows of the error catalogue (errors.ts) about contexts: kernels that keep state. */
export const contextErrors = {
  interpreter_missing: {
    status: 409,
    retry: 'after-change',
    summary: 'The sandbox has no interpreter: none of its layers brings one',
    remedy:
      'Create the sandbox with the layer `interpreter`, or activate that layer; whoever runs the daemon builds it once, by `squash module build interpreter`',
  },
  context_not_found: {
    status: 404,
    retry: 'never',
    summary: 'The sandbox has no context of this name',
    remedy: 'List what there is, or create it',
  },
  context_exists: {
    status: 409,
    retry: 'never',
    summary: 'The sandbox has a context of this name',
    remedy: 'Choose another name, or remove that context first',
  },
  context_ended: {
    status: 409,
    retry: 'after-change',
    summary: 'The context has ended, with all of its state',
    remedy: 'Create it again: a context lives as long as its sandbox runs, and no snapshot or fork has it',
  },
  context_limit: {
    status: 429,
    retry: 'later',
    summary: 'The sandbox has its maximum number of contexts',
    remedy: 'Remove a context',
  },
  context_busy: {
    status: 429,
    retry: 'later',
    summary: 'Too many cells wait for this context already',
    remedy: 'Wait for cells to end, interrupt the one that runs, or use another context',
  },
  kernel_died: {
    status: 409,
    retry: 'after-change',
    summary: 'The kernel of the context has died, and with it what cells had defined',
    remedy: 'Restart the context and run again what its cells need',
  },
  cell_not_found: {
    status: 404,
    retry: 'never',
    summary: 'The context has no such cell, or its output is not kept any more',
    remedy: 'Read a cell’s output before the context has written some megabytes more',
  },
} as const;
