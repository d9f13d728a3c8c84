import type { Account } from '../account.ts';
import type { FakeGroup, FakeInstance } from '../types.ts';
import { ApiError, type Call, validationError } from './call.ts';

export function groupOf(account: Account, call: Call): FakeGroup {
  const name = call.required('AutoScalingGroupName');
  const group = account.groups.get(name);
  if (group === undefined)
    throw validationError(`AutoScalingGroup name not found - AutoScalingGroup '${name}' not found`);
  return group;
}

export function instanceOf(account: Account, id: string): FakeInstance {
  const instance = account.instances.get(id);
  if (instance === undefined) {
    throw validationError(`Instance Id not found - No managed instance found for instance ID: ${id}`);
  }
  return instance;
}

export interface Page<Item> {
  readonly items: readonly Item[];
  readonly next: string | undefined;
}

/** Returns the part of a list that a call asks for with `MaxRecords` and `NextToken`. */
export function pageOf<Item>(
  items: readonly Item[],
  call: Call,
  { usual, most }: { readonly usual: number; readonly most: number },
): Page<Item> {
  const size = call.whole('MaxRecords') ?? usual;
  if (!(size >= 1 && size <= most)) {
    throw validationError(`The value ${size} for MaxRecords is not valid: it must be between 1 and ${most}.`);
  }
  const token = call.text('NextToken');
  const from = token === undefined ? 0 : Number(/^after-(\d+)$/.exec(token)?.[1]);
  if (!Number.isSafeInteger(from)) throw new ApiError('InvalidNextToken', `Invalid NextToken: ${token}`);
  const next = from + size < items.length ? `after-${from + size}` : undefined;
  return { items: items.slice(from, from + size), next };
}
