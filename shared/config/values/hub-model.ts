/** A model on a hub of models, as Hugging Face's. */
export interface HubModel {
  /** Name with its owner, `Qwen/Qwen3-0.6B`. */
  readonly id: string;
  /** Branch, tag or commit. @default 'main' */
  readonly revision: string;
}

const DEFAULT_REVISION = 'main';
const ID_CHARACTERS_MAX = 96;
const REVISION_CHARACTERS_MAX = 200;

/**
 * Reads the name of a model on a hub: `ORG/NAME` or `ORG/NAME@REVISION`, also behind `hf://`. Returns undefined for any
 * other text. The parts cannot leave a folder that is named after them.
 */
export function parseHubModel(text: string): HubModel | undefined {
  const bare = text.startsWith('hf://') ? text.slice('hf://'.length) : text;
  const [id = '', ...rest] = bare.split('@');
  const revision = rest.length === 0 ? DEFAULT_REVISION : rest.join('@');
  return isHubId(id) && isRevision(revision) ? { id, revision } : undefined;
}

/** Returns the name of `model` as `parseHubModel` reads it, without the default revision. */
export function nameOfHubModel({ id, revision }: HubModel): string {
  return revision === DEFAULT_REVISION ? id : `${id}@${revision}`;
}

function isHubId(id: string): boolean {
  const isWritten = /^[A-Za-z0-9][\w.-]*\/[A-Za-z0-9_][\w.-]*$/.test(id) && id.length <= ID_CHARACTERS_MAX;
  return isWritten && !/--|\.\.|[.-](?:\/|$)|\.git$/.test(id);
}

function isRevision(revision: string): boolean {
  const isWritten = /^[A-Za-z0-9_][\w./+-]*$/.test(revision) && revision.length <= REVISION_CHARACTERS_MAX;
  return isWritten && !/\.\.|\/\/|\/\.|\/$/.test(revision);
}
