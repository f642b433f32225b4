/** The limits of SSH, each with its reason; the others are in `limits.ts`. */
export const sshLimits = {
  /** The line of an RSA key of 16,384 bits. */
  publicKeyCharsMax: 4_096,
  /** Logins that hold at once: some hundred bytes each. */
  loginsMax: 1_024,
  /** Of each key, sessions that can't log in again, as rows of less than two hundred bytes: two years at eighty logins a day, six weeks at one a minute. */
  sessionsKept: 65_536,
  /** A login that nobody uses for so long is over; the gateway says more often that it is used. None holds for more than a day. */
  loginRestMs: 300_000,
  loginUseMs: 120_000,
  loginMsMax: 86_400_000,
  /** Connections to the gateway at once, how many of one address, and how many that have not logged in. */
  connectionsMax: 128,
  connectionsOfOneMax: 32,
  strangersMax: 32,
  /** From a connection to its login, and requests for one. */
  loginWaitMs: 30_000,
  attemptsMax: 12,
  /** A silent client is asked whether it is there. */
  keepAliveMs: 60_000,
  /** Old space of the gateway's heap. */
  heapMb: 256,
  /** Before the gateway is started again. */
  retryMs: 1_000,
} as const;
