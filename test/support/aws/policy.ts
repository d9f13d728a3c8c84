/** A statement of an IAM policy, as CloudFormation resolved it. */
export interface Statement {
  readonly Effect: 'Allow' | 'Deny';
  readonly Action: string | readonly string[];
  readonly Resource: string | readonly string[];
  /** Values by operator and key. */
  readonly Condition?: Readonly<Record<string, Readonly<Record<string, string | readonly string[]>>>>;
}

/** Values of condition keys that a call has, such as `dynamodb:LeadingKeys`. */
export type CallContext = Readonly<Record<string, readonly string[]>>;

/** Compares texts as IAM does: `*` matches any text, and `?` any character. */
function isLike(pattern: string, text: string, flags = ''): boolean {
  const escaped = pattern.replaceAll(/[.+^${}()|[\]\\]/g, '\\$&');
  return new RegExp(`^${escaped.replaceAll('*', '.*').replaceAll('?', '.')}$`, flags).test(text);
}

/** Compares actions and resources. */
function matches(pattern: string, text: string): boolean {
  return isLike(pattern, text, 'i');
}

/** Whether `statements` allow `action` on `resource`. */
export function isAllowed(
  statements: readonly Statement[],
  action: string,
  resource: string,
  context: CallContext = {},
): boolean {
  const found = statements.filter((statement) => covers(statement, action, resource) && holds(statement, context));
  return found.some(({ Effect }) => Effect === 'Allow') && !found.some(({ Effect }) => Effect === 'Deny');
}

function covers({ Action, Resource }: Statement, action: string, resource: string): boolean {
  return (
    [Action].flat().some((pattern) => matches(pattern, action)) &&
    [Resource].flat().some((pattern) => matches(pattern, resource))
  );
}

/** Comparisons of condition operators ("IAM JSON policy elements: Condition operators"). */
const OPERATORS: Readonly<Record<string, (pattern: string, value: string) => boolean>> = {
  StringEquals: (pattern, value) => pattern === value,
  StringLike: (pattern, value) => isLike(pattern, value),
  ArnEquals: matches,
  ArnLike: matches,
};

/**
 * Whether all conditions of a statement hold. As at IAM, `ForAllValues` holds without any value, and other operators do
 * not. @throws Error for an operator that is not known here
 */
function holds({ Condition = {} }: Statement, context: CallContext): boolean {
  return Object.entries(Condition).every(([operator, keys]) => {
    const [, set, name = ''] = /^(?:(ForAllValues|ForAnyValue):)?(\w+)$/.exec(operator) ?? [];
    const compare = OPERATORS[name];
    if (compare === undefined) throw new Error(`condition operator ${operator} is not known here`);
    return Object.entries(keys).every(([key, given]) => {
      const values = context[key] ?? [];
      const fits = (value: string): boolean => [given].flat().some((pattern) => compare(pattern, value));
      return set === 'ForAllValues' ? values.every(fits) : values.some(fits);
    });
  });
}

/** Returns every pair of an allowed action and a resource, one line each. */
export function grantsOf(statements: readonly Statement[]): readonly string[] {
  return statements
    .filter(({ Effect }) => Effect === 'Allow')
    .flatMap(({ Action, Resource }) =>
      [Action].flat().flatMap((action) => [Resource].flat().map((on) => `${action} ${on}`)),
    );
}

/** Returns the grants that cover none of the calls. Calls are lines of the same form. */
export function unusedGrants(statements: readonly Statement[], calls: Iterable<string>): readonly string[] {
  const made = [...calls];
  return grantsOf(statements).filter((grant) => {
    const [action = '', resource = ''] = grant.split(' ');
    return !made.some((call) => {
      const [did = '', on = ''] = call.split(' ');
      return matches(action, did) && matches(resource, on);
    });
  });
}
