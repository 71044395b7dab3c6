-- The meaning of the codes of reasons: the same table as in `QueueCore/Outcome/Reason.swift`. A test compares the two.

-- The text of a reason as APNs spells it, and the status that comes with it; null for pushq's own reasons.
create or replace function pushq.reason(code int, out reason text, out status int)
language sql immutable strict parallel safe
begin atomic
  select
    coalesce((array[
    'Other', 'BadCollapseId', 'BadDeviceToken', 'BadExpirationDate', 'BadMessageId', 'BadPriority', 'BadTopic',
    'DeviceTokenNotForTopic', 'DuplicateHeaders', 'IdleTimeout', 'InvalidPushType', 'MissingDeviceToken',
    'MissingTopic', 'PayloadEmpty', 'TopicDisallowed', 'BadCertificate', 'BadCertificateEnvironment',
    'ExpiredProviderToken', 'Forbidden', 'InvalidProviderToken', 'MissingProviderToken', 'UnrelatedKeyIdInToken',
    'BadEnvironmentKeyIdInToken', 'BadPath', 'MethodNotAllowed', 'ExpiredToken', 'Unregistered', 'PayloadTooLarge',
    'TooManyProviderTokenUpdates', 'TooManyRequests', 'InternalServerError', 'ServiceUnavailable', 'Shutdown',
    'OtherTransient', 'OtherCredential', 'NoAnswer', 'Quarantined', 'GivenBack', 'BadChannelId', 'BadRequestParams',
    'BadRequestPayload', 'CannotCreateChannelConfig', 'ChannelNotRegistered', 'FeatureNotEnabled',
    'MissingChannelId', 'MissingChannelQueueSize', 'MissingPushType', 'TopicMismatch', 'QuietHours'
    ])[least(code, 1000) + 1], 'Other'),
    nullif((array[
    0, 400, 400, 400, 400, 400, 400, 400, 400, 400, 400, 400, 400, 400, 400, 403, 403, 403, 403, 403, 403, 403, 403,
    404, 405, 410, 410, 413, 429, 429, 500, 503, 503, 0, 0, 0, 0, 0, 400, 400, 400, 400, 400, 400, 400, 400, 400, 403, 0
    ])[least(code, 1000) + 1], 0);
end;
