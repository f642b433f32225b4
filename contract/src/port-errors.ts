/** The rows of the error catalogue (errors.ts) about ports: of sandboxes, and of callers. */
export const portErrors = {
  port_unreachable: {
    status: 502,
    retry: 'later',
    summary: 'Nothing answers on this port of the sandbox',
    remedy: 'Start the program that listens there, or wait for it',
  },
  port_offered: {
    status: 409,
    retry: 'later',
    summary: 'A caller offers this port to the sandbox already',
    remedy: 'Offer another port, or end that offer',
  },
  offer_limit: {
    status: 429,
    retry: 'later',
    summary: 'As many ports are offered to the sandbox as one may have',
    remedy: 'End an offer',
  },
  connection_gone: {
    status: 404,
    retry: 'never',
    summary: 'Nothing waits on this connection to a port of the caller',
    remedy: 'Take connections as soon as they are told, each once',
  },
} as const;
