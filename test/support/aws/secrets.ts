import { SECRET_ARN_PREFIX, type Template } from './localize.ts';

/** What Secrets Manager makes of the secrets of templates: the same text for the same secret. */
export class Secrets {
  readonly #templates: readonly Template[];

  constructor(templates: readonly Template[]) {
    this.#templates = templates;
  }

  /** @param valueFrom its ARN, and after it, as ECS has it, `:FIELD:STAGE:VERSION` */
  textOf(valueFrom: string): string {
    const [id = '', field = ''] = valueFrom.replace(SECRET_ARN_PREFIX, '').split(':');
    const text = this.#made(id);
    if (field === '') return text;
    const { [field]: value } = JSON.parse(text) as Record<string, string>;
    if (value === undefined) throw new Error(`secret ${id} has no field ${field}`);
    return value;
  }

  /** A value in which CloudFormation resolves references to secrets. */
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
