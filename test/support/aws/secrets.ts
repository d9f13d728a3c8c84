import { SECRET_ARN_PREFIX, type Template } from './localize.ts';

/**
 * Values that Secrets Manager would generate for the secrets of templates. The same secret always has the same text.
 */
export class Secrets {
  readonly #templates: readonly Template[];

  constructor(templates: readonly Template[]) {
    this.#templates = templates;
  }

  /**
   * Returns the text of a secret.
   * @param valueFrom its ARN, optionally followed by `:FIELD:STAGE:VERSION` as in ECS
   */
  textOf(valueFrom: string): string {
    const [id = '', field = ''] = valueFrom.replace(SECRET_ARN_PREFIX, '').split(':');
    const text = this.#made(id);
    if (field === '') return text;
    const { [field]: value } = JSON.parse(text) as Record<string, string>;
    if (value === undefined) throw new Error(`secret ${id} has no field ${field}`);
    return value;
  }

  /** Returns `value` with its references to secrets resolved as CloudFormation would. */
  fill(value: string): string {
    return value.replaceAll(
      /\{\{resolve:secretsmanager:(.*?):SecretString:([^:]*).*?\}\}/g,
      (_all, arn: string, field) => this.textOf(field === '' ? arn : `${arn}:${field}`),
    );
  }

  #made(id: string): string {
    const given = this.#templates.find(({ Resources }) => Resources[id] !== undefined)?.Resources[id]?.Properties;
    if (given === undefined) throw new Error(`there is no secret ${id}`);
    const { GenerateSecretString: how = {} } = given as { readonly GenerateSecretString?: Record<string, string> };
    const made = Buffer.from(id).toString('hex').padEnd(64, '0').slice(-64);
    if (how.GenerateStringKey === undefined) return made;
    return JSON.stringify({
      ...(JSON.parse(how.SecretStringTemplate ?? '{}') as object),
      [how.GenerateStringKey]: made,
    });
  }
}
