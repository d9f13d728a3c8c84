/** Part of a byte stream that a connection needs. A `net.Socket` is one. */
export interface ByteChannel {
  readonly destroyed: boolean;
  /**
   * Whether it is still connecting. It counts as connected once it is secured, which 'secureConnect' reports: before
   * that the peer is unknown.
   */
  readonly encrypted?: boolean;
  /** Written bytes that have not left yet. */
  readonly writableLength: number;
  /** Writes bytes; false = write no more before 'drain'. Their memory may be reused when `writableLength` is 0. */
  write(bytes: Uint8Array): boolean;
  /** Closes at once. */
  destroy(): unknown;
  /** Closes when the written bytes have left. */
  destroySoon(): void;
  /** Lets the channel keep the process alive, or not. */
  ref(): unknown;
  unref(): unknown;
  /** Address of the other end, if it has one. */
  readonly remoteAddress?: string | undefined;
  /** Keying material that only the two ends of this channel can know (RFC 5705); an encrypted channel has it. */
  exportKeyingMaterial?(bytes: number, label: string, context: Buffer): Buffer;
  on(event: 'connect' | 'secureConnect' | 'drain' | 'close', listener: () => void): unknown;
  on(event: 'error', listener: (error: Error) => void): unknown;
  on(event: 'data', listener: (bytes: Buffer) => void): unknown;
  once(event: 'close', listener: () => void): unknown;
}

const NOTHING = Buffer.alloc(0);

/**
 * Returns the bytes that tie a proof to `channel`: a man in the middle has two channels, and so two of these. Empty for
 * a plain channel.
 */
export function channelBinding(channel: ByteChannel): Uint8Array {
  return channel.exportKeyingMaterial?.(32, 'EXPORTER-stator-plane', NOTHING) ?? NOTHING;
}

/** Facts that every transport knows about the endpoint behind a `Transport`. */
export interface CallTarget {
  readonly instanceId: string;
  /** `{instance}/{ns}/{component}/{endpoint}` */
  readonly endpoint: string;
  /** Key of connections: targets with the same key share them. */
  readonly poolKey: string;
}

/**
 * Opens a channel to `target`. Received bytes go to `onBytes`, valid only during the call. 'connect' or 'close'
 * follows.
 */
export type Dial<Target extends CallTarget> = (target: Target, onBytes: (bytes: Buffer) => void) => ByteChannel;
