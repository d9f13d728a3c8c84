/**
 * @module engines/mocker/handoff
 * How a mock decode engine gets the blocks that a mock prefill engine has computed: who asks, who holds, for how long.
 */

export {
  type HandoffCaller,
  type HandoffDesk,
  type HandoffFetch,
  type HandoffListener,
  type HandoffNetwork,
  type HandoffRequest,
  memoryHandoffs,
} from './handoffs.ts';
export { HeldBlocks } from './held-blocks.ts';
export { type TcpHandoffOptions, tcpHandoffs } from './tcp-handoffs.ts';
