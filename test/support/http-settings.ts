import { resolveConfig } from '../../shared/config/index.ts';
import { httpSettings } from '../../shared/frontends/http/settings.ts';

/** HTTP settings of a frontend without any setting. */
export const defaultHttpSettings = httpSettings(resolveConfig('frontend', [], {}).settings);
