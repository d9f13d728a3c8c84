import { createHash } from 'node:crypto';
import {
  Aspects,
  CfnElement,
  CfnResource,
  DefaultTokenResolver,
  type IAspect,
  type IPostProcessor,
  type IResolvable,
  type IResolveContext,
  Reference,
  Stack,
  StringConcat,
  Tokenization,
} from 'aws-cdk-lib';
import { CfnFunction } from 'aws-cdk-lib/aws-lambda';
import type { IConstruct } from 'constructs';

/** Key of the metadata of a resource that refers to another stack: the targets of its references. */
const REFERENCES = 'stator:references';

/**
 * Deploys a stack again if a resource of another stack that it refers to has been replaced.
 *
 * A reference to another stack is a question to that stack's outputs. The text of that question stays the same when a
 * table there is created again. Without a mark CloudFormation would see no change, and functions and tasks would
 * continue with the table that is gone.
 */
export function followReferences(stack: Stack): void {
  Aspects.of(stack).add(new ReferenceMarks());
}

class ReferenceMarks implements IAspect {
  readonly #templates = new Map<Stack, Template>();

  visit(node: IConstruct): void {
    if (!(node instanceof CfnResource)) return;
    const marks = [...targetsOf(node)].map(([stack, targets]) => {
      const ids = targets.map((target) => stack.resolve(target.logicalId) as string);
      return [stack.stackName, hashOf(this.#templateOf(stack), ids)] as const;
    });
    if (marks.length === 0) return;
    node.addMetadata(REFERENCES, Object.fromEntries(marks));
    // A release of a function is made only when the function itself has changed.
    if (node instanceof CfnFunction)
      node.description = `${node.description ?? ''} (${marks.map(([, mark]) => mark).join()})`;
  }

  #templateOf(stack: Stack): Template {
    const template = this.#templates.get(stack) ?? templateOf(stack);
    this.#templates.set(stack, template);
    return template;
  }
}

/** Notes which elements of other stacks a resource refers to. */
class ForeignReferences extends DefaultTokenResolver {
  readonly targets = new Map<Stack, CfnElement[]>();

  constructor() {
    super(new StringConcat());
  }

  override resolveToken(token: IResolvable, context: IResolveContext, postProcessor: IPostProcessor): unknown {
    if (Reference.isReference(token) && token.target instanceof CfnElement) {
      const { stack } = token.target;
      if (stack !== Stack.of(context.scope))
        this.targets.set(stack, [...(this.targets.get(stack) ?? []), token.target]);
    }
    return super.resolveToken(token, context, postProcessor);
  }
}

function targetsOf(resource: CfnResource): ReadonlyMap<Stack, readonly CfnElement[]> {
  const resolver = new ForeignReferences();
  Tokenization.resolve(resource._toCloudFormation(), { scope: resource, resolver, preparing: false });
  return resolver.targets;
}

type Template = Readonly<Record<string, unknown>>;

/** Changes when one of the resources changes, or what they are made of: a subnet is another one in another VPC. */
function hashOf(template: Template, ids: readonly string[]): string {
  const reached = new Set(ids);
  for (const id of reached) for (const other of idsIn(template[id])) if (other in template) reached.add(other);
  const text = JSON.stringify([...reached].sort().map((id) => [id, template[id]]));
  return createHash('sha256').update(text).digest('hex').slice(0, 12);
}

/** Type and properties of a stack's resources, by their logical ids. */
function templateOf(stack: Stack): Template {
  const resources = stack.node.findAll().filter((node) => node instanceof CfnResource);
  return Object.fromEntries(
    resources.map((node) => {
      const [[id, { Type, Properties }]] = Object.entries(
        (stack.resolve(node._toCloudFormation()) as { Resources: Record<string, Record<string, unknown>> }).Resources,
      ) as [[string, Record<string, unknown>]];
      return [id, { Type, Properties }];
    }),
  );
}

/** Returns every text in `value` that may be a logical id. */
function idsIn(value: unknown): readonly string[] {
  if (Array.isArray(value)) return value.flatMap(idsIn);
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, each]) => {
    if (key === 'Ref') return [String(each)];
    if (key === 'Fn::GetAtt') return [String([each].flat()[0]).split('.')[0] ?? ''];
    return idsIn(each);
  });
}
