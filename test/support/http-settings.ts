import { resolveConfig } from '../../shared/config/index.ts';
import { httpSettings } from '../../shared/frontends/http/settings.ts';

/** The HTTP surface of a frontend that is started without a setting. */
export const defaultHttpSettings = httpSettings(resolveConfig('frontend', [], {}).settings);
