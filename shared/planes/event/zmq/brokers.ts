/** Addresses of the proxies (XSUB and XPUB sockets back to back) between publishers and subscribers. */
export interface ZmqBrokers {
  /** Addresses to which publishers connect, e.g. `tcp://10.0.0.7:5555`. */
  readonly xsub: readonly string[];
  /** Addresses to which subscribers connect. */
  readonly xpub: readonly string[];
}

/** Source of the current brokers. */
export interface ZmqBrokerSource {
  /** Calls `listener` with the brokers of `namespace`: the current ones before it resolves, then every change. */
  follow(namespace: string, listener: (brokers: ZmqBrokers) => void): Promise<{ close(): void }>;
}

/** Returns a source of brokers that never change. */
export function fixedBrokers(brokers: ZmqBrokers): ZmqBrokerSource {
  return {
    async follow(_namespace, listener) {
      listener(brokers);
      return { close() {} };
    },
  };
}

/** Socket options for brokers that go away and come back. Times in ms. */
export const BROKER_CONNECTION = {
  reconnectInterval: 100,
  /** The pauses between attempts double up to this. */
  reconnectMaxInterval: 5000,
  connectTimeout: 5000,
  // A broker whose host is gone never closes the connection.
  heartbeatInterval: 5000,
  heartbeatTimeout: 15_000,
} as const;

/** Part of a PUB or SUB socket that following brokers needs. */
interface ConnectingSocket {
  ipv6: boolean;
  connect(endpoint: string): void;
  disconnect(endpoint: string): void;
  close(): void;
}

/** Connects to one more endpoint. ZeroMQ reaches no address in brackets unless its socket may use IPv6. */
export function connectTo(endpoint: string, socket: Pick<ConnectingSocket, 'ipv6' | 'connect'>): void {
  if (endpoint.includes('[')) socket.ipv6 = true;
  socket.connect(endpoint);
}

/** A socket that stays connected to all brokers. */
export interface BrokerConnections {
  /** Brokers at the start. */
  readonly first: ZmqBrokers;
  close(): void;
}

/**
 * Connects `socket` to one side of every broker of `namespace`, now and as they come and go. An invalid address goes to
 * `onProblem`. If `source` rejects, closes the socket and rejects.
 */
export async function connectToBrokers(
  socket: ConnectingSocket,
  side: keyof ZmqBrokers,
  source: ZmqBrokerSource,
  namespace: string,
  onProblem: (problem: unknown) => void,
): Promise<BrokerConnections> {
  const connected = new Set<string>();
  let first: ZmqBrokers = { xsub: [], xpub: [] };
  function heed(brokers: ZmqBrokers): void {
    first = brokers;
    for (const endpoint of connected) if (!brokers[side].includes(endpoint)) leave(endpoint);
    for (const endpoint of brokers[side]) if (!connected.has(endpoint)) join(endpoint);
  }
  function leave(endpoint: string): void {
    connected.delete(endpoint);
    socket.disconnect(endpoint);
  }
  function join(endpoint: string): void {
    try {
      connectTo(endpoint, socket);
      connected.add(endpoint);
    } catch (problem) {
      onProblem(problem);
    }
  }
  try {
    const following = await source.follow(namespace, heed);
    return { first, close: () => following.close() };
  } catch (thrown) {
    socket.close();
    throw thrown;
  }
}
