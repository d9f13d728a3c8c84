const HOST = 'memory';

/** A decode engine that asks for the blocks of one prompt, seen from the engine that has them. */
export interface HandoffCaller {
  /** The blocks are there: they may be fetched. */
  ready(): void;
  /** They are not, and will not be. */
  refuse(reason: string): void;
}

/** What a prefill engine answers with. */
export interface HandoffDesk {
  /**
   * Somebody asks for `key`; `mayWait` until it is there. The returned function is called once: the blocks were fetched, or
   * the caller has gone.
   */
  asked(key: string, mayWait: boolean, caller: HandoffCaller): () => void;
}

/** An open door to a desk. */
export interface HandoffListener {
  /** As decode engines reach it. */
  readonly host: string;
  readonly port: number;
  /** Callers that are still there are let go. */
  close(): Promise<void>;
}

export interface HandoffRequest {
  readonly host: string;
  readonly port: number;
  readonly key: string;
  /** Both legs are on their way at once: the blocks may come later. */
  readonly mayWait: boolean;
}

/** One wish for blocks, seen from the decode engine. */
export interface HandoffFetch {
  /** They are fetched, or nobody wants them any more: their holder may free them. Idempotent. */
  close(): void;
}

/** Carries nothing but the news of who holds which blocks: a mock engine has no contents to move. */
export interface HandoffNetwork {
  /** @param port 0 = any */
  listen(port: number, desk: HandoffDesk): Promise<HandoffListener>;
  /**
   * Calls `ready` or `failed`, on a later turn, unless it is closed before; `failed` after `ready` when the holder of the
   * blocks goes before the fetch is closed.
   */
  fetch(request: HandoffRequest, ready: () => void, failed: (reason: string) => void): HandoffFetch;
}

/** Handoffs between the engines of one process. */
export function memoryHandoffs(): HandoffNetwork {
  const desks = new Map<number, HandoffDesk>();
  let nextPort = 1;
  return {
    async listen(asked, desk) {
      const port = asked === 0 ? nextPort++ : asked;
      if (desks.has(port)) throw new Error(`port ${port} is in use`);
      desks.set(port, desk);
      return { host: HOST, port, close: async () => void desks.delete(port) };
    },
    fetch({ port, key, mayWait }, ready, failed) {
      let isClosed = false;
      let over = (): void => {};
      const later = (tell: () => void) => queueMicrotask(() => !isClosed && tell());
      queueMicrotask(() => {
        if (isClosed) return;
        const desk = desks.get(port);
        if (desk === undefined) return later(() => failed('nobody listens'));
        over = desk.asked(key, mayWait, { ready: () => later(ready), refuse: (reason) => later(() => failed(reason)) });
      });
      return {
        close() {
          if (isClosed) return;
          isClosed = true;
          over();
        },
      };
    },
  };
}
