import { Agent as HttpAgent } from 'node:http';
import { Agent as HttpsAgent } from 'node:https';
import { overLimit } from '../../errors/index.ts';
import type { MediaPolicy } from './media-policy.ts';

/** Idle connections of one scheme, over all hosts: clients may name as many hosts as they like. */
const IDLE_MAX = 64;

/** Connections that outlive a fetch, for the next one from the same host under the same policy. */
export class MediaConnections {
  readonly #plain: HttpAgent;
  readonly #secure: HttpsAgent;

  constructor({ keepAliveMs }: Pick<MediaPolicy, 'keepAliveMs'>) {
    const options = { keepAlive: true, timeout: keepAliveMs }; // idle connections keep no process alive
    this.#plain = bounded(new HttpAgent(options));
    this.#secure = bounded(new HttpsAgent(options));
  }

  agentFor(isSecure: boolean): HttpAgent {
    return isSecure ? this.#secure : this.#plain;
  }
}

function bounded<Kind extends HttpAgent>(agent: Kind): Kind {
  const keep = agent.keepSocketAlive.bind(agent);
  // Node closes a connection when this says false; its types do not know that it says anything.
  agent.keepSocketAlive = (socket) => idleOf(agent) < IDLE_MAX && keep(socket);
  return agent;
}

function idleOf({ freeSockets }: HttpAgent): number {
  return Object.values(freeSockets).reduce((sum, sockets) => sum + (sockets?.length ?? 0), 0);
}

/** Bytes that the media of one request may hold together, taken as they are read: many small ones cost as much as a large one. */
export class MediaBudget {
  readonly #bytesMax: number;
  #taken = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  /** @throws ServeError `invalid_value` when the media of the request hold more than they may */
  take(bytes: number): void {
    this.#taken += bytes;
    if (this.#taken > this.#bytesMax) {
      const message = `the media of a request may hold ${this.#bytesMax} bytes together`;
      throw overLimit('media_bytes', message, { param: 'messages', worker: 'InvalidArgument' });
    }
  }
}
