import type { HandoffDesk, HandoffNetwork } from '../../shared/engines/mocker/handoffs.ts';

const HOST = 'memory';

/** Returns a network for handoffs between the engines of one process. */
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
