import { type LimitName, toServeError } from '../../errors/index.ts';
import type { MessageRoom } from '../../grpc/index.ts';
import type { ByteBudget } from '../inference/deps.ts';

/**
 * Returns the room for messages, which is a part of the process's room for bodies.
 * @param onLimit called for each message that finds no room
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
