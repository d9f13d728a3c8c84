/** Part of a byte stream that a connection needs. A `net.Socket` is one. */
export interface ByteChannel {
  readonly destroyed: boolean;
  /**
   * Whether it is still connecting. An encrypted channel is connected only after 'secureConnect', because the peer is
   * unknown before.
   */
  readonly encrypted?: boolean;
  /** Number of written bytes that have not left yet. */
  readonly writableLength: number;
  /**
   * Writes bytes. Returns false if the caller must wait for 'drain' before it writes more. The caller may reuse the
   * memory of the bytes when `writableLength` is 0.
   */
  write(bytes: Uint8Array): boolean;
  /** Closes at once. */
  destroy(): unknown;
  /** Closes when the written bytes have left. */
  destroySoon(): void;
  /** Decides whether the channel keeps the process alive. */
  ref(): unknown;
  unref(): unknown;
  /** Address of the other end, if it has one. */
  readonly remoteAddress?: string | undefined;
  /** Keying material that only the two ends of this channel can know (RFC 5705). Only an encrypted channel has it. */
  exportKeyingMaterial?(bytes: number, label: string, context: Buffer): Buffer;
  on(event: 'connect' | 'secureConnect' | 'drain' | 'close', listener: () => void): unknown;
  on(event: 'error', listener: (error: Error) => void): unknown;
  on(event: 'data', listener: (bytes: Buffer) => void): unknown;
  once(event: 'close', listener: () => void): unknown;
}

const NOTHING = Buffer.alloc(0);

/**
 * Returns the bytes that tie a proof to `channel`. A man in the middle has two channels, whose bytes differ. A plain
 * channel has no such bytes.
 */
export function channelBinding(channel: ByteChannel): Uint8Array {
  return channel.exportKeyingMaterial?.(32, 'EXPORTER-stator-plane', NOTHING) ?? NOTHING;
}

/** Facts that every transport knows about the endpoint behind a `Transport`. */
export interface CallTarget {
  readonly instanceId: string;
  /** `{instance}/{ns}/{component}/{endpoint}` */
  readonly endpoint: string;
  /** Key of the connections to the target. Targets with the same key share connections. */
  readonly poolKey: string;
}

/**
 * Opens a channel to `target`. 'connect' or 'close' follows. `onBytes` gets the received bytes, which are valid only
 * during the call.
 */
export type Dial<Target extends CallTarget> = (target: Target, onBytes: (bytes: Buffer) => void) => ByteChannel;
