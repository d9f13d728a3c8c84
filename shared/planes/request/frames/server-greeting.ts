import { randomBytes } from 'node:crypto';
import { workerError } from '../../../errors/index.ts';
import { isRecord } from '../../../records/index.ts';
import { decodeRecord } from '../../record-codec.ts';
import { type ByteChannel, channelBinding } from './byte-channel.ts';
import { FrameError } from './frame.ts';
import { NONCE_BYTES, PeerFault, type PlaneSecrets, PROOF_BYTES, type Transcript } from './peer-trust.ts';
import { isFrameBound, PLANE_PROTOCOL, type ReadHello } from './records.ts';

const NONCE_TEXT = /^[\w-]{43}$/; // 32 bytes in base64url

/**
 * The worker's side of the beginning of a connection. With a token, the worker greets a caller only after a proof of
 * the token.
 */
export class ServerGreeting {
  readonly #secret: PlaneSecrets | undefined;
  readonly #channel: ByteChannel;
  #hello: ReadHello | undefined;
  #transcript: Transcript | undefined;

  constructor(secret: PlaneSecrets | undefined, channel: ByteChannel) {
    this.#secret = secret;
    this.#channel = channel;
  }

  /** HELLO of the caller. Throws `FrameError` if it has not arrived yet. */
  get hello(): ReadHello {
    if (this.#hello === undefined) throw new FrameError('no HELLO yet');
    return this.#hello;
  }

  /**
   * Reads HELLO. Throws `FrameError` if it is invalid, `PeerFault` if it is of another release, and `Unauthenticated`
   * if only one side has a token.
   * @returns payload of the CHALLENGE that the caller must answer; undefined = no proof is needed
   */
  challenge(bytes: Buffer, start: number, end: number): Uint8Array | undefined {
    const hello = readHello(decodeRecord(bytes, start, end));
    this.#hello = hello;
    if (this.#secret === undefined) {
      if (hello.nonce === undefined) return undefined;
      throw workerError(
        'Unauthenticated',
        'the caller has a STATOR_PLANE_TOKEN, but the worker has none: set the same at both ends',
      );
    }
    if (hello.nonce === undefined) {
      throw workerError(
        'Unauthenticated',
        'the worker has a STATOR_PLANE_TOKEN, but the caller has none: set the same at both ends',
      );
    }
    const workerNonce = randomBytes(NONCE_BYTES);
    const said = Buffer.from(bytes.subarray(start, end)); // a copy, because the buffer of a connection is reused
    this.#transcript = { hello: said, workerNonce, channel: channelBinding(this.#channel) };
    return Buffer.concat([workerNonce, this.#secret.proofs(this.#transcript)]);
  }

  /** Checks the payload of PROOF. Throws `Unauthenticated`. */
  verify(bytes: Buffer, start: number, end: number): void {
    if (end - start !== PROOF_BYTES || this.#transcript === undefined) throw new FrameError('PROOF of a wrong length');
    if (this.#secret?.isProof(bytes.subarray(start, end), this.#transcript) === true) return;
    throw workerError('Unauthenticated', 'the caller has another STATOR_PLANE_TOKEN');
  }
}

function readHello(record: unknown): ReadHello {
  if (!isRecord(record)) throw new FrameError('not a HELLO');
  const { proto, maxFrame, instanceId, nonce, moves } = record;
  if (proto !== PLANE_PROTOCOL)
    throw new PeerFault('the caller runs a release with another greeting: update both ends');
  if (!isFrameBound(maxFrame)) throw new FrameError('HELLO without maxFrame');
  if (nonce !== undefined && !(typeof nonce === 'string' && NONCE_TEXT.test(nonce)))
    throw new FrameError('not a nonce');
  return {
    maxFrame,
    instanceId: typeof instanceId === 'string' ? instanceId : undefined,
    nonce,
    moves: moves === true,
  };
}
