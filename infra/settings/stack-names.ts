import type * as z from 'zod';
import { stackOf } from './fleets.ts';

/** Limit of CloudFormation. */
const STACK_NAME_MAX = 128;

/** Parts that name the stacks. */
interface Named {
  readonly name: string;
  readonly fleets: Readonly<Record<string, { readonly generation?: string | undefined }>>;
}

/** Refuses fleets whose stacks would have too long a name, or that of another one. */
export function checkStackNames({ name: deployment, fleets }: Named, context: z.RefinementCtx): void {
  const taken = new Map<string, string>();
  for (const [name, fleet] of Object.entries(fleets)) {
    const refuse = (message: string) => context.addIssue({ code: 'custom', path: ['fleets', name], message });
    const stack = `${deployment}-${stackOf(name, fleet)}`;
    const other = taken.get(stack);
    if (other !== undefined) refuse(`its stack would be ${stack}, as that of fleets.${other} is`);
    else if (stack.length > STACK_NAME_MAX)
      refuse(`its stack would be ${stack}, which has ${stack.length} characters: allowed are ${STACK_NAME_MAX}`);
    taken.set(stack, name);
  }
}
