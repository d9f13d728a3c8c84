/** A statement of an IAM policy, as CloudFormation resolved it. */
export interface Statement {
  readonly Effect: 'Allow' | 'Deny';
  readonly Action: string | readonly string[];
  readonly Resource: string | readonly string[];
}

/** Compares actions and resources as IAM does: `*` matches any text. */
function matches(pattern: string, text: string): boolean {
  const parts = pattern.split('*').map((part) => part.replaceAll(/[.+?^${}()|[\]\\]/g, '\\$&'));
  return new RegExp(`^${parts.join('.*')}$`, 'i').test(text);
}

/** Whether `statements` allow `action` on `resource`. Conditions are ignored. */
export function isAllowed(statements: readonly Statement[], action: string, resource: string): boolean {
  const covers = ({ Action, Resource }: Statement): boolean =>
    [Action].flat().some((pattern) => matches(pattern, action)) &&
    [Resource].flat().some((pattern) => matches(pattern, resource));
  const found = statements.filter(covers);
  return found.some(({ Effect }) => Effect === 'Allow') && !found.some(({ Effect }) => Effect === 'Deny');
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
