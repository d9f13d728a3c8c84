import { IncomingMessage } from 'node:http';

/** Key under which a request keeps whether the parser saw that it asks to leave HTTP. */
const ASKED = Symbol('asked');

/**
 * Returns the request class of a server that leaves HTTP only for some requests. As soon as a server listens for
 * `upgrade`, Node leaves HTTP for every request that asks. Clients that offer HTTP/2 with each request would then get
 * no answer.
 * @param takes whether the server accepts a GET for a WebSocket at that target
 */
export function upgradableRequests(takes: (target: string) => boolean): typeof IncomingMessage {
  return class extends IncomingMessage {
    declare [ASKED]: boolean | undefined;

    get upgrade(): boolean {
      if (this[ASKED] !== true) return false;
      if (this.method === 'CONNECT') return true; // Node closes those
      return this.method === 'GET' && this.headers.upgrade?.toLowerCase() === 'websocket' && takes(this.url ?? '');
    }

    set upgrade(asked: boolean | null) {
      this[ASKED] = asked === true;
    }
  };
}
