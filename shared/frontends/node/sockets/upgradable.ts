import { IncomingMessage } from 'node:http';

/** Where the parser's word is kept that a request asks to leave HTTP. */
const ASKED = Symbol('asked');

/**
 * Requests of a server that leaves HTTP for some of them alone. Node leaves it for all that ask, once anybody listens for
 * `upgrade`: clients that offer HTTP/2 with each request would then get no answer.
 * @param takes whether a GET for a WebSocket at that target is taken
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
