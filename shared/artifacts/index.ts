/**
 * @module artifacts
 * Model folders by checksum, from a local path, and the small model and text that come with the product.
 */
export { builtinModelPath, builtinText, findLocalModel } from './local-models.ts';
export {
  describeChatTemplate,
  ModelFilesAbsent,
  type ModelReference,
  openChatTemplate,
  openModelFolder,
} from './open-model-folder.ts';
