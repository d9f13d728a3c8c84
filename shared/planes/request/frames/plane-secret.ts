import { createHmac, hkdfSync, timingSafeEqual } from 'node:crypto';

/** Bytes of a nonce and of a proof. */
export const NONCE_BYTES = 32;
export const PROOF_BYTES = 32;

/** Who proves. Part of what is proved, so that no side can hand back the other's proof. */
export type ProvingSide = 'caller' | 'worker';

/** What both ends of one connection have seen of it. A proof is of this alone, and worthless on any other connection. */
export interface Transcript {
  /** Payload of HELLO as it was sent; holds the caller's nonce. */
  readonly hello: Uint8Array;
  readonly workerNonce: Uint8Array;
  /** What an encrypted channel has of its own at both ends; empty where there is none. */
  readonly channel: Uint8Array;
}

/** The plane token (`STATOR_PLANE_TOKEN`) as keys of what it is for. The token itself is not kept, and never sent. */
export class PlaneSecret {
  /** Key of TLS where the token alone encrypts. */
  readonly tlsKey: Buffer;
  readonly #proofKey: Buffer;

  constructor(token: string) {
    this.tlsKey = derive(token, 'stator plane 2: tls');
    this.#proofKey = derive(token, 'stator plane 2: proof');
  }

  /** What shows the other side that `side` knows the token. */
  prove(side: ProvingSide, { hello, workerNonce, channel }: Transcript): Buffer {
    const hmac = createHmac('sha256', this.#proofKey).update(`${side}\0`);
    for (const part of [hello, workerNonce, channel]) hmac.update(`${part.length}\0`).update(part);
    return hmac.digest();
  }

  /** Whether `given` is the proof of `side`; takes the same time wherever it is wrong. */
  isProof(given: Uint8Array, side: ProvingSide, transcript: Transcript): boolean {
    return given.length === PROOF_BYTES && timingSafeEqual(given, this.prove(side, transcript));
  }
}

function derive(token: string, purpose: string): Buffer {
  return Buffer.from(hkdfSync('sha256', token, '', purpose, 32));
}
