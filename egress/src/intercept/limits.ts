/**
 * Limits of interception, each with the reason for its number. How many connections may be intercepted at once stands
 * in `egress/src/limits.ts`, with the limits of connections.
 */
export const interceptLimits = {
  /** A TLS handshake, either side. Across the world with a lost packet it is below 5 s. */
  handshakeMs: 15_000,
  /** All headers of a message. Servers take 8 to 64 KiB; long cookies and tokens fit. */
  headerBytesMax: 65_536,
  /** A connection without a request under way. Programs keep idle ones for seconds to minutes. */
  idleMs: 600_000,
  /** A body whose length is known and changes: up to here it is collected, so that its length stays known. */
  collectedBytesMax: 65_536,
  /** Requests of one connection at once, as most HTTP/2 servers have it. Over HTTP/1.1 apt sends 10 ahead. */
  requestsMax: 128,
  /** Heads of requests under way on one connection, where there is more than one: browsers' have 2 KiB each. */
  aheadBytesMax: 262_144,
  /** What a request under way counts for beside its head, until it is settled: as much of the heap as one takes that waits. */
  exchangeBytes: 8_192,
  /** All requests under way, of all sandboxes; one has half at most. Heads of ordinary ones have 1 KiB each. */
  headBytesMax: 67_108_864,
  /** Bytes of one HTTP/2 connection that wait for a slow reader: a round trip of 20 ms at 100 Mbit/s. */
  windowBytes: 262_144,
  /**
   * Bytes that wait for the reader at a TLS end before their source is stopped: two of the pieces that Node reads at once.
   * With one, which is Node's own number, each piece stops the source and starts it again.
   */
  waitingBytesMax: 131_072,
  /** So many connections at once have that; of more, each gets Node's number, so that readers who stand still cost little. */
  fastConnectionsMax: 64,
  /** What a request counts for in a turn beside its body: as long as it takes, so many bytes can be passed. */
  exchangeTurnBytes: 65_536,
  /** Connections to an HTTP/1.1 server for one HTTP/2 connection of a program. More requests wait their turn. */
  http1ConnectionsMax: 32,
  /** What is still read of a refused request's body, so that the program gets to read why. */
  refusedBodyBytesMax: 1_048_576,
  /** Of all early answers (103) to one request. Browsers' hints have some hundred bytes. */
  earlyBytesMax: 16_384,
  /** A server that gives more of them means no answer. */
  earlyMax: 64,
  /** The longest WebSocket control frame (RFC 6455, 5.5). */
  controlFrameBytesMax: 125,
} as const;
