/**
 * @module artifacts
 * Model folders by checksum, from a local path, and the small model and text that come with the product.
 */
export { builtinModelPath, builtinText } from './builtin.ts';
export { findLocalModel } from './local-model.ts';
export type { ModelReference } from './model-reference.ts';
export { describeChatTemplate, openChatTemplate } from './open-chat-template.ts';
export { openModelFolder } from './open-model-folder.ts';
