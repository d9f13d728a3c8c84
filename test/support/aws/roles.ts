import { type Templates, TemplateValues } from './ecs/index.ts';
import type { Statement } from './policy.ts';

interface Policy {
  readonly PolicyDocument: { readonly Statement: readonly unknown[] };
}

/** Roles, functions, tables and queues of templates, with all references filled in as CloudFormation would. */
export class RolesOf {
  readonly #templates: Templates;
  readonly #values: TemplateValues;

  constructor(templates: Templates) {
    this.#templates = templates;
    this.#values = new TemplateValues(templates);
  }

  /** Returns the statements of the policies of a stack whose ids match. */
  statements(stack: string, policy: RegExp): readonly Statement[] {
    return this.#of(stack, 'AWS::IAM::Policy', policy).flatMap(([, properties]) => {
      const { Statement } = (properties as unknown as Policy).PolicyDocument;
      return Statement.map((each) => this.#values.resolve(stack, each) as Statement);
    });
  }

  /** Returns the environment of the function of a stack whose id matches. */
  functionVariables(stack: string, id: RegExp): Readonly<Record<string, string>> {
    const [found] = this.#of(stack, 'AWS::Lambda::Function', id);
    const { Variables = {} } = (found?.[1].Environment ?? {}) as { readonly Variables?: Record<string, unknown> };
    return this.#values.resolve(stack, Variables) as Record<string, string>;
  }

  /** Returns the ARN of a table of any stack, by its name. */
  tableArn(name: string): string {
    for (const stack of Object.keys(this.#templates))
      for (const [id] of this.#of(stack, 'AWS::DynamoDB::Table', /./))
        if (this.#values.text(stack, { Ref: id }) === name)
          return this.#values.text(stack, { 'Fn::GetAtt': [id, 'Arn'] });
    return `no-table/${name}`;
  }

  /** Returns the ARN of the queue of a stack whose id matches. */
  queueArn(stack: string, id: RegExp): string {
    const [[key] = ['']] = this.#of(stack, 'AWS::SQS::Queue', id);
    return this.#values.text(stack, { 'Fn::GetAtt': [key, 'Arn'] });
  }

  #of(stack: string, type: string, id: RegExp) {
    const resources = Object.entries(this.#templates[stack]?.Resources ?? {});
    return resources.flatMap(([key, { Type, Properties = {} }]) =>
      Type === type && id.test(key) ? [[key, Properties] as const] : [],
    );
  }
}
