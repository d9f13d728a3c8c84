import { type LimitName, toServeError } from '../../errors/index.ts';
import type { MessageRoom } from '../../grpc/index.ts';
import type { ByteBudget } from '../inference/deps.ts';

/**
 * Room for messages, of the room that the process has for bodies.
 * @param onLimit hears of each message for which there is none
 */
export function messageRoom(bodies: ByteBudget, onLimit: (limit: LimitName) => void): MessageRoom {
  return {
    take: (bytes) => {
      try {
        bodies.take(bytes);
      } catch (thrown) {
        const { limit } = toServeError(thrown);
        if (limit !== undefined) onLimit(limit);
        throw thrown;
      }
    },
    give: (bytes) => bodies.give(bytes),
  };
}
