/** What a connection needs of the byte stream that carries it. A `net.Socket` is one. */
export interface ByteChannel {
  readonly destroyed: boolean;
  /** It counts as connected once it is secured, which 'secureConnect' tells: before that, whom it speaks to is not known. */
  readonly encrypted?: boolean;
  /** Bytes written that have not left yet. */
  readonly writableLength: number;
  /** Takes the bytes; false = write no more before 'drain'. Their memory may be used again when `writableLength` is 0. */
  write(bytes: Uint8Array): boolean;
  /** Closes at once. */
  destroy(): unknown;
  /** Closes when what was written has left. */
  destroySoon(): void;
  /** Keeps the process alive, or not. */
  ref(): unknown;
  unref(): unknown;
  /** Address of the other end, where it has one. */
  readonly remoteAddress?: string | undefined;
  /** What only the two ends of this very channel can know (RFC 5705); an encrypted one has it. */
  exportKeyingMaterial?(bytes: number, label: string, context: Buffer): Buffer;
  on(event: 'connect' | 'secureConnect' | 'drain' | 'close', listener: () => void): unknown;
  on(event: 'error', listener: (error: Error) => void): unknown;
  on(event: 'data', listener: (bytes: Buffer) => void): unknown;
  once(event: 'close', listener: () => void): unknown;
}

const NOTHING = Buffer.alloc(0);

/** What ties a proof to `channel`: somebody in the middle has two channels, and so two of these. Empty for a plain one. */
export function channelBinding(channel: ByteChannel): Uint8Array {
  return channel.exportKeyingMaterial?.(32, 'EXPORTER-stator-plane', NOTHING) ?? NOTHING;
}

/** What every transport knows of the endpoint behind a `Transport`. */
export interface CallTarget {
  readonly instanceId: string;
  /** `{instance}/{ns}/{component}/{endpoint}` */
  readonly endpoint: string;
  /** Targets with the same key share connections. */
  readonly poolKey: string;
}

/** Opens a channel to `target`; what it receives goes to `onBytes`, valid only during the call. 'connect' or 'close' follows. */
export type Dial<Target extends CallTarget> = (target: Target, onBytes: (bytes: Buffer) => void) => ByteChannel;
