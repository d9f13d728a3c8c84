/**
 * @module engines/mocker/handoff
 * How a mock decode engine gets the blocks that a mock prefill engine has computed: who asks, who holds, for how long.
 */
export { HeldBlocks } from './held-blocks.ts';
export { memoryHandoffs } from './memory-handoffs.ts';
export { type TcpHandoffOptions, tcpHandoffs } from './tcp-handoffs.ts';
export type {
  HandoffCaller,
  HandoffDesk,
  HandoffFetch,
  HandoffListener,
  HandoffNetwork,
  HandoffRequest,
} from './types.ts';
