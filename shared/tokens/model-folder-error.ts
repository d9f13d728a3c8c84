/** A model folder cannot be used. The message is one line: which file, what is wrong, what to do. */
export class ModelFolderError extends Error {
  override readonly name = 'ModelFolderError';
}
