import type { RoutingHints } from '../generation/engine-request.ts';
import { type DecodeContext, integerHeader, type Mutable } from './decode-context.ts';
import type { Nvext } from './shared-fields.ts';

/**
 * Decodes how urgent the request is: `nvext.agent_hints`, then headers, which win. A priority below 0 goes to the
 * engine, but never delays the request in a router's queue.
 */
export function decodePriority(
  hints: Nvext['agent_hints'],
  { headers, settings }: DecodeContext,
  routing: Mutable<RoutingHints>,
): void {
  let priority = hints?.priority ?? undefined;
  let strictPriority = hints?.strict_priority ?? undefined;
  if (!settings.isNvextDisabled) {
    priority = integerHeader(headers, 'x-dynamo-request-priority', -0x8000_0000, 0x7fff_ffff) ?? priority;
    strictPriority = integerHeader(headers, 'x-dynamo-request-strict-priority', 0, 0xffff_ffff) ?? strictPriority;
  }
  if (priority !== undefined) {
    routing.priority = priority;
    routing.priority_jump = Math.max(priority, 0);
  } else if (hints?.latency_sensitivity != null) {
    routing.priority_jump = hints.latency_sensitivity;
  }
  if (strictPriority !== undefined) routing.strict_priority = strictPriority;
}
