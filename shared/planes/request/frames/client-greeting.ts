import { randomBytes } from 'node:crypto';
import { encodeRecord } from '../../record-codec.ts';
import { type ByteChannel, channelBinding } from './byte-channel.ts';
import { CONNECTION_STREAM, FRAME_HEADER_BYTES, FrameType } from './frame.ts';
import { ByteWriter } from './outbox.ts';
import { NO_GREETING, NO_PROOF, NONCE_BYTES, PeerFault, PROOF_BYTES, type Transcript } from './peer-trust.ts';
import { type Hello, PLANE_PROTOCOL } from './records.ts';
import type { ConnectionSettings } from './settings.ts';

/**
 * The caller's side of the beginning of a connection. With a token, the caller sends only HELLO until the worker has
 * proved that it knows the token. Then it sends its own proof before everything else.
 */
export class ClientGreeting {
  readonly #settings: ConnectionSettings;
  readonly #hello: Uint8Array;

  constructor(settings: ConnectionSettings, instanceId: string) {
    this.#settings = settings;
    const { frameBytesMax, secret } = settings;
    const sizes = { proto: PLANE_PROTOCOL, codecs: ['msgpack'], maxFrame: frameBytesMax } as const;
    const hello: Hello = { ...sizes, instanceId, moves: true };
    const nonce = secret && randomBytes(NONCE_BYTES).toString('base64url');
    this.#hello = encodeRecord(nonce === undefined ? hello : { ...hello, nonce });
  }

  get hasToken(): boolean {
    return this.#settings.secret !== undefined;
  }

  /** Returns the error that explains why the worker closed the connection in `state`. */
  closedReason(state: string): Error {
    if (state === 'proving') return new PeerFault(NO_PROOF);
    const isUnheard = state === 'greeting' && !this.hasToken;
    return isUnheard ? new PeerFault(NO_GREETING) : new Error('the worker closed the connection');
  }

  /** Begins the first write of `writer`: with HELLO, or, if HELLO has to leave first, with room for the proof. */
  prepare(writer: ByteWriter): void {
    if (this.hasToken) writer.frame(FrameType.proof, CONNECTION_STREAM, new Uint8Array(PROOF_BYTES));
    else this.#write(writer);
  }

  /** Returns only the HELLO frame. */
  helloFrame(): Uint8Array {
    const writer = new ByteWriter();
    this.#write(writer);
    return writer.bytes.subarray(0, writer.length);
  }

  /**
   * Reads the payload of CHALLENGE (nonce, one or two proofs), and writes the caller's own proof at the start of
   * `writer`. Throws `PeerFault` if the worker does not know the token.
   */
  answer(challenge: Uint8Array, channel: ByteChannel, writer: ByteWriter): void {
    const { secret } = this.#settings;
    const transcript: Transcript = {
      hello: this.#hello,
      workerNonce: challenge.subarray(0, NONCE_BYTES),
      channel: channelBinding(channel),
    };
    const shared = secret?.provedBy(challenge.subarray(NONCE_BYTES), transcript);
    if (shared === undefined) throw new PeerFault('the worker has another STATOR_PLANE_TOKEN, or none');
    writer.overwrite(FRAME_HEADER_BYTES, shared.prove('caller', transcript));
  }

  #write(writer: ByteWriter): void {
    writer.frame(FrameType.hello, CONNECTION_STREAM, this.#hello);
  }
}
