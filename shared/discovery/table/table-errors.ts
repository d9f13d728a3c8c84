import { reasonOf } from '../../errors/index.ts';

/** Kind of a failure: `unavailable` may pass, `misconfigured` will not pass by itself. */
export type TableErrorCode = 'unavailable' | 'misconfigured';

/** Names of failures that do not pass by waiting, in the words of the service and of the SDK. */
const REFUSALS: ReadonlySet<string> = new Set([
  'AccessDeniedException',
  'CredentialsProviderError',
  'ExpiredTokenException',
  'IncompleteSignatureException',
  'InvalidSignatureException',
  'MissingAuthenticationTokenException',
  'UnrecognizedClientException',
  'ValidationException',
]);

/** Names of refusals for lack of capacity. Waiting helps against them; checking the network does not. */
const THROTTLINGS: ReadonlySet<string> = new Set([
  'ProvisionedThroughputExceededException',
  'RequestLimitExceeded',
  'ThrottlingException',
]);

/** A call that failed because its process stood still (frozen, stopped, suspended). It says nothing about the table. */
export class InterruptedCall extends Error {
  override readonly name = 'InterruptedCall';

  constructor(cause: unknown) {
    super('the process stood still during the call', { cause });
  }
}

/** A failure of a store, in one line that says what to do. Each room has its own class. */
export class StoreError<Code extends string = string> extends Error {
  readonly code: Code;

  constructor(code: Code, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.code = code;
  }
}

/** Place and name of a table, and the form in which its room reports failures. */
export interface TablePlace {
  readonly tableName: string;
  readonly endpoint: string | undefined;
  readonly region: string | undefined;
  /** Content of the table, for messages: `discovery table`. */
  readonly kind: string;
  /** Setting that names the table. */
  readonly setting: string;
  /** Advice if the table cannot be reached, which begins with a comma. @default none */
  readonly alternative?: string;
  /** Makes the room's own error. */
  toError(code: TableErrorCode, message: string, cause: unknown): StoreError;
}

/** Explains a failed call in one line that names the endpoint and the table and says what to do. */
export function toTableError(thrown: unknown, place: TablePlace): StoreError {
  if (thrown instanceof StoreError) return thrown;
  const { kind, tableName, setting, alternative = '' } = place;
  const where = place.endpoint ?? `the AWS endpoint of ${place.region ?? process.env.AWS_REGION ?? 'no region'}`;
  const name = thrown instanceof Error ? thrown.name : '';
  if (name === 'ResourceNotFoundException') {
    const hint = `Deploy the stack, or set ${setting} to a table that exists`;
    return place.toError('misconfigured', `${kind} "${tableName}" does not exist at ${where}. ${hint}`, thrown);
  }
  if (REFUSALS.has(name)) {
    const hint = 'Check the AWS credentials and their rights on the table';
    const what = `DynamoDB at ${where} refused ${kind} "${tableName}"`;
    return place.toError('misconfigured', `${what}: ${reasonText(thrown)}. ${hint}`, thrown);
  }
  if (THROTTLINGS.has(name)) {
    const what = `DynamoDB at ${where} throttles ${kind} "${tableName}"`;
    const hint = 'Raise the capacity of the table, or bill it on demand';
    return place.toError('unavailable', `${what}: ${reasonText(thrown)}. ${hint}`, thrown);
  }
  if (/region is missing/i.test(reasonText(thrown))) {
    return place.toError('misconfigured', `no AWS region for ${kind} "${tableName}". Set AWS_REGION`, thrown);
  }
  const hint = `Check the network, AWS_REGION and STATOR_DYNAMODB_ENDPOINT${alternative}`;
  const what = `cannot reach DynamoDB at ${where} for ${kind} "${tableName}"`;
  return place.toError('unavailable', `${what}: ${reasonText(thrown)}. ${hint}`, thrown);
}

/** Returns the item on which a condition failed, if the call asked for it; undefined if `thrown` is another failure. */
export function conditionFailure(thrown: unknown): { readonly item: unknown } | undefined {
  if (!(thrown instanceof Error) || thrown.name !== 'ConditionalCheckFailedException') return undefined;
  return { item: 'Item' in thrown ? thrown.Item : undefined };
}

/**
 * Whether a transaction was cancelled because a condition did not hold, or because another transaction uses the same
 * items. In both cases another process was faster.
 */
export function isConditionOfTransaction(thrown: unknown): boolean {
  if (!(thrown instanceof Error) || thrown.name !== 'TransactionCanceledException') return false;
  const reasons = (thrown as { readonly CancellationReasons?: readonly { readonly Code?: string }[] })
    .CancellationReasons;
  return (reasons ?? []).some(({ Code }) => Code === 'ConditionalCheckFailed' || Code === 'TransactionConflict');
}

/**
 * Returns the failure in one line. Refused connections to several addresses come as an `AggregateError` without a
 * message.
 */
function reasonText(thrown: unknown): string {
  const first = thrown instanceof AggregateError && thrown.message === '' ? thrown.errors[0] : thrown;
  return reasonOf(first).replaceAll(/\s+/g, ' ').replace(/\.$/, '');
}
