/**
 * Every limit of the egress process, each with the reason for its number. Units stand last in the names.
 *
 * Where a limit is per sandbox it is what keeps sandboxes fair to each other; where it is for all it keeps the process
 * within its memory.
 */
export const egressLimits = {
  // Channels.
  /** A frame that waits for a relay: past this its DNS answers are dropped (UDP may lose them). */
  relayQueueBytes: 1_048_576,
  /** … and past this the relay is taken for dead and cut; it comes back with the next connection. */
  relayQueueBytesMax: 8_388_608,
  /** From accept to the first frame on `egress.sock`. The launcher writes it before it connects anything else. */
  helloMs: 5_000,
  /** … and once more for a stream that was asked for. */
  helloAgainMs: 1_000,
  /** Between two tries to reach the launcher: it is restarted by hand, seldom. */
  launcherRetryMs: 250,

  // Connections.
  /** Of one sandbox, being decided or open: the promised 10,000 and room for those that are just closing. */
  sandboxConnectionsMax: 16_384,
  /** Of one sandbox, being dialled at once: a sandbox that dials into the void waits for itself only. */
  sandboxDialsMax: 256,
  /** Of all sandboxes, being dialled at once: half of the launcher's descriptors at the usual limit of 1,024. */
  dialsMax: 512,
  /** Connections a sandbox may open per second for long, and at once. More wait their turn. */
  sandboxConnectionsPerS: 2_000,
  sandboxConnectionsBurst: 12_000,
  /** TLS connections of one sandbox that are read, per second for long, and at once: a handshake costs 1 ms to 2 ms. */
  sandboxHandshakesPerS: 200,
  sandboxHandshakesBurst: 1_000,
  /** … and that are refused in words, which costs a certificate for each name as well. Those above hear a reset. */
  sandboxRefusalsPerS: 20,
  sandboxRefusalsBurst: 100,
  /** Of one sandbox, read by the interceptor: each holds two TLS ends, some hundred KiB. */
  sandboxInterceptedMax: 1_024,
  interceptedMax: 4_096,
  /** Of one sandbox, DNS over TCP: resolvers use one, when an answer was cut. */
  sandboxDnsStreamsMax: 64,
  /** One address. The last one of a name gets the whole time, earlier ones less, so that a dead one costs little. */
  dialMs: 10_000,
  dialEarlierMs: 3_000,
  /** A proxy's answer: it looks the name up and dials, as long as we would. */
  proxyAnswerMs: 15_000,
  /** Its head, which may explain a refusal at length. */
  proxyAnswerBytesMax: 16_384,
  /** What a program has said to its end and its server takes no byte of: then the rest is dropped. */
  carriedRestMs: 60_000,
  /** Addresses of one name that are tried. */
  dialAddressesMax: 8,
  /**
   * A program that says nothing for this long may wait for the server to speak first (SSH, SMTP, MySQL): the server is
   * dialled, while what the program says first is still looked at. Clients that speak first do so at once.
   */
  serverFirstMs: 250,
  /** A connection that will be refused or read, whose program says nothing: browsers open some ahead of need. */
  firstBytesMs: 120_000,
  /** A refused connection whose program says nothing: it expects the server to speak, a reset is the clearest word. */
  refusedFirstBytesMs: 2_000,
  /** … on ports where programs speak first: where a processor is emulated Java connects seconds before its ClientHello. */
  refusedHelloMs: 15_000,
  /** From the first byte of a ClientHello or request line to its last. */
  helloBytesMs: 10_000,
  /** … of text that may become a request: protocols without lines begin alike, and wait for an answer. */
  unfinishedMs: 750,
  /** The same on other ports, where few servers do; within a second all the same. */
  silentMs: 500,
  /** The first line of what may become a request, after it was let go: servers refuse far shorter ones. */
  firstLineMax: 65_536,
  /** What is looked at: with post-quantum keys a ClientHello has 2 KiB, with resumption data up to 10. */
  firstBytesMax: 16_384,

  // Ports that callers offer.
  /** Of one sandbox, offered at once: a database, a debugger and what else runs on a desk. */
  sandboxOffersMax: 16,
  /** Of one sandbox, open or waiting to be taken: each takes one of the daemon's 256 streams, and other sandboxes' callers need some. */
  sandboxOfferedMax: 64,
  /** Until the caller has taken it: he dials a port of his own machine first, across a slow line. */
  offerTakeMs: 10_000,

  // Questions that wait for a person.
  /** Open at once, of one sandbox: more than a person reads at a time. */
  sandboxQuestionsMax: 16,
  questionsMax: 256,
  /** New ones of one sandbox, per second for long, and at once: six a minute keep a person busy. */
  sandboxQuestionsPerS: 0.1,
  sandboxQuestionsBurst: 20,
  /** Connections and requests of one sandbox that wait for an answer. Each holds a place in its relay, or some KiB here. */
  sandboxAskersMax: 256,
  askersMax: 2_048,
  /** What was denied is refused for so long without a question: programs try again at once. */
  deniedMs: 30_000,
  deniedQuestionsMax: 64,

  // DNS.
  /** Queries of one sandbox per second for long, and at once. Those above are dropped, as a full link would. */
  sandboxQueriesPerS: 2_000,
  sandboxQueriesBurst: 4_000,
  /** Questions of one sandbox that wait, for their turn or for a resolver of the host. More are dropped. */
  sandboxLookupsMax: 128,
  /**
   * Names asked of the host's resolvers at once, for all sandboxes. Each is two questions, and dnsmasq, which many hosts have,
   * refuses whoever asks once 150 are open.
   */
  lookupsMax: 64,
  /** … and for one of them: what is left is there for the next one's first, however slowly its names are answered. */
  sandboxLookupsAtOnceMax: 32,
  /** One query to the host's resolvers, tries included: programs give up after 5 s to 10 s. */
  lookupMs: 5_000,
  /** Names kept in the resolver's cache, for all sandboxes. */
  cacheEntriesMax: 8_192,
  /** Bounds of what a record's own TTL is taken for. */
  cacheTtlMinS: 5,
  cacheTtlMaxS: 300,
  /** How long a name that is not there is remembered: c-ares does not tell the zone's own number. */
  cacheNegativeS: 10,
  /** Records of one answer that are passed on. */
  answerRecordsMax: 128,
  /** A query over TCP; real ones are below 300 bytes. */
  queryBytesMax: 4_096,
  /** A DNS stream from which nothing comes. */
  dnsStreamIdleMs: 10_000,
  /** In answers with virtual addresses: short, so that a program asks again after a sandbox was restored. */
  virtualTtlS: 60,
  /** Names of one sandbox that have an address: allowed ones, and refused ones apart so that these push out none. */
  sandboxNamesMax: 8_192,
  sandboxRefusedNamesMax: 1_024,
  /** A name that was asked for, or connected to, this recently keeps its address when the table is full. */
  nameKeepMs: 600_000,

  // Bytes that pass this process, read or not.
  /**
   * What one sandbox passes in a round of the event loop before it waits for the others, where there are others: about a
   * millisecond of deciphering, searching and enciphering. Less would make one download beside an idle neighbour slower.
   */
  turnBytes: 262_144,
  /**
   * What a connection passes before it is counted, and waits where it has to: Node's own number for a read. With two hundred connections
   * pieces are a quarter of that, and waiting after each would cost half as much again.
   */
  pieceBytes: 65_536,
  /**
   * Text that a value could go on from, from a host that may have it, waits so long for what follows, or a quarter less, whatever it is: longer
   * than a round trip, so that a value which comes in two packets is known before its beginning goes.
   */
  quietMs: 1_000,

  // Decisions.
  /** Rows of one sandbox; the oldest go. A day of an agent at work. */
  sandboxDecisionsMax: 20_000,
  /** Rows of all sandboxes: at some 200 bytes each, 200 MB. */
  decisionsMax: 1_000_000,
  /** Rows that wait for their transaction; past this they are counted instead of stored. */
  decisionsPendingMax: 10_000,
  /** How long they wait at most: unseen by a person who follows. */
  decisionsFlushMs: 100,
  /** A name's DNS decision is recorded again only after this: programs ask before every connection. */
  dnsDecisionRepeatMs: 60_000,
  /** Names of one sandbox whose decision is remembered for that. */
  dnsDecisionNamesMax: 512,
  /** Hosts, paths and rules in a row are cut here. */
  decisionTextMax: 1_024,
  /** Followers of the log at once; the daemon has one for each of its own clients. */
  followersMax: 256,
  /** What a follower that does not read may hold. */
  followerQueueBytesMax: 1_048_576,
  /** A comment in a silent stream, so that a dead follower is noticed. */
  followerKeepAliveMs: 15_000,

  // Control.
  /** The largest request: 10,000 sandboxes with a policy of 6 KB each. */
  controlBodyBytesMax: 67_108_864,
  /** Open requests when the process is told to end. */
  stopMs: 2_000,
  /** The log file is set aside once when it is this large: at most twice that much is on the disk. */
  logBytesMax: 8_388_608,
} as const;
