-- The language and time zone that a phone reports, in their stored form. An app passes them on at each start. If their
-- form led to an error, the token would be lost, and with it every push.

-- A locale in its plain form. After @, Apple's Locale.identifier writes what the user has changed
-- (th_TH@calendar=gregorian), which is not part of a language tag. If a locale is too long, its extensions are the
-- reason, and are removed.
create or replace function pushq.reported_locale(locale text) returns text
language plpgsql stable as $$
begin
  if locale ~ '.@' then
    locale := split_part(locale, '@', 1);
  end if;
  if octet_length(locale) > 35 then
    locale := regexp_replace(locale, '[-_][A-Za-z0-9][-_].*$', '');
  end if;
  return pushq.plain_locale(locale);
end $$;

-- The main name of a time zone, so that all devices of a place have the same one: Apple's older systems say
-- Asia/Calcutta for Asia/Kolkata. PostgreSQL may not know the other names: Debian 13, for example, has them in a
-- separate package. A zone without another name, or whose main name PostgreSQL does not know, stays unchanged.
--
-- The list is parsed when the expression is planned, not with each call.
create or replace function pushq.plain_zone(time_zone text) returns text
language plpgsql stable strict as $$
declare
  hours int;
  -- The links of tzdata 2025b whose names are not in zone.tab, which lists the places of countries; without
  -- abbreviations. If tzdata links to another country with the same clocks, the target here is the name of the place
  -- instead.
  plain text := '{
    "Africa/Asmera": "Africa/Asmara", "Africa/Timbuktu": "Africa/Bamako",
    "America/Argentina/ComodRivadavia": "America/Argentina/Catamarca", "America/Atka": "America/Adak",
    "America/Buenos_Aires": "America/Argentina/Buenos_Aires", "America/Catamarca": "America/Argentina/Catamarca",
    "America/Coral_Harbour": "America/Atikokan", "America/Cordoba": "America/Argentina/Cordoba",
    "America/Ensenada": "America/Tijuana", "America/Fort_Wayne": "America/Indiana/Indianapolis",
    "America/Godthab": "America/Nuuk", "America/Indianapolis": "America/Indiana/Indianapolis",
    "America/Jujuy": "America/Argentina/Jujuy", "America/Knox_IN": "America/Indiana/Knox",
    "America/Louisville": "America/Kentucky/Louisville", "America/Mendoza": "America/Argentina/Mendoza",
    "America/Montreal": "America/Toronto", "America/Nipigon": "America/Toronto",
    "America/Pangnirtung": "America/Iqaluit", "America/Porto_Acre": "America/Rio_Branco",
    "America/Rainy_River": "America/Winnipeg", "America/Rosario": "America/Argentina/Cordoba",
    "America/Santa_Isabel": "America/Tijuana", "America/Shiprock": "America/Denver",
    "America/Thunder_Bay": "America/Toronto", "America/Virgin": "America/St_Thomas",
    "America/Yellowknife": "America/Edmonton", "Antarctica/South_Pole": "Antarctica/McMurdo",
    "Asia/Ashkhabad": "Asia/Ashgabat", "Asia/Calcutta": "Asia/Kolkata", "Asia/Choibalsan": "Asia/Ulaanbaatar",
    "Asia/Chongqing": "Asia/Shanghai", "Asia/Chungking": "Asia/Shanghai", "Asia/Dacca": "Asia/Dhaka",
    "Asia/Harbin": "Asia/Shanghai", "Asia/Istanbul": "Europe/Istanbul", "Asia/Kashgar": "Asia/Urumqi",
    "Asia/Katmandu": "Asia/Kathmandu", "Asia/Macao": "Asia/Macau", "Asia/Rangoon": "Asia/Yangon",
    "Asia/Saigon": "Asia/Ho_Chi_Minh", "Asia/Tel_Aviv": "Asia/Jerusalem", "Asia/Thimbu": "Asia/Thimphu",
    "Asia/Ujung_Pandang": "Asia/Makassar", "Asia/Ulan_Bator": "Asia/Ulaanbaatar", "Atlantic/Faeroe": "Atlantic/Faroe",
    "Atlantic/Jan_Mayen": "Arctic/Longyearbyen", "Australia/ACT": "Australia/Sydney",
    "Australia/Canberra": "Australia/Sydney", "Australia/Currie": "Australia/Hobart",
    "Australia/LHI": "Australia/Lord_Howe", "Australia/NSW": "Australia/Sydney", "Australia/North": "Australia/Darwin",
    "Australia/Queensland": "Australia/Brisbane", "Australia/South": "Australia/Adelaide",
    "Australia/Tasmania": "Australia/Hobart", "Australia/Victoria": "Australia/Melbourne",
    "Australia/West": "Australia/Perth", "Australia/Yancowinna": "Australia/Broken_Hill",
    "Brazil/Acre": "America/Rio_Branco", "Brazil/DeNoronha": "America/Noronha", "Brazil/East": "America/Sao_Paulo",
    "Brazil/West": "America/Manaus", "Canada/Atlantic": "America/Halifax", "Canada/Central": "America/Winnipeg",
    "Canada/Eastern": "America/Toronto", "Canada/Mountain": "America/Edmonton",
    "Canada/Newfoundland": "America/St_Johns", "Canada/Pacific": "America/Vancouver",
    "Canada/Saskatchewan": "America/Regina", "Canada/Yukon": "America/Whitehorse",
    "Chile/Continental": "America/Santiago", "Chile/EasterIsland": "Pacific/Easter", "Cuba": "America/Havana",
    "Egypt": "Africa/Cairo", "Eire": "Europe/Dublin", "Etc/Greenwich": "GMT", "Etc/UCT": "UTC", "Etc/UTC": "UTC",
    "Etc/Universal": "UTC", "Etc/Zulu": "UTC", "Europe/Belfast": "Europe/London", "Europe/Kiev": "Europe/Kyiv",
    "Europe/Nicosia": "Asia/Nicosia", "Europe/Tiraspol": "Europe/Chisinau", "Europe/Uzhgorod": "Europe/Kyiv",
    "Europe/Zaporozhye": "Europe/Kyiv", "GB": "Europe/London", "GB-Eire": "Europe/London", "Greenwich": "GMT",
    "Hongkong": "Asia/Hong_Kong", "Iceland": "Atlantic/Reykjavik", "Iran": "Asia/Tehran", "Israel": "Asia/Jerusalem",
    "Jamaica": "America/Jamaica", "Japan": "Asia/Tokyo", "Kwajalein": "Pacific/Kwajalein", "Libya": "Africa/Tripoli",
    "Mexico/BajaNorte": "America/Tijuana", "Mexico/BajaSur": "America/Mazatlan",
    "Mexico/General": "America/Mexico_City", "NZ": "Pacific/Auckland", "NZ-CHAT": "Pacific/Chatham",
    "Navajo": "America/Denver", "PRC": "Asia/Shanghai", "Pacific/Enderbury": "Pacific/Kanton",
    "Pacific/Johnston": "Pacific/Honolulu", "Pacific/Ponape": "Pacific/Pohnpei", "Pacific/Samoa": "Pacific/Pago_Pago",
    "Pacific/Truk": "Pacific/Chuuk", "Pacific/Yap": "Pacific/Chuuk", "Poland": "Europe/Warsaw",
    "Portugal": "Europe/Lisbon", "ROC": "Asia/Taipei", "ROK": "Asia/Seoul", "Singapore": "Asia/Singapore",
    "Turkey": "Europe/Istanbul", "UCT": "UTC", "US/Alaska": "America/Anchorage", "US/Aleutian": "America/Adak",
    "US/Arizona": "America/Phoenix", "US/Central": "America/Chicago",
    "US/East-Indiana": "America/Indiana/Indianapolis", "US/Eastern": "America/New_York",
    "US/Hawaii": "Pacific/Honolulu", "US/Indiana-Starke": "America/Indiana/Knox", "US/Michigan": "America/Detroit",
    "US/Mountain": "America/Denver", "US/Pacific": "America/Los_Angeles", "US/Samoa": "Pacific/Pago_Pago",
    "Universal": "UTC", "W-SU": "Europe/Moscow", "Zulu": "UTC"}'::jsonb ->> time_zone;
begin
  if plain is null and time_zone ~ '^(Etc/)?GMT([+-]?0+)?$' then
    plain := 'GMT';
  elsif plain is null and time_zone ~ '^GMT[+-][0-9]{4}$' then
    -- Apple's name of a zone with a fixed offset. IANA's names have the opposite sign, and only whole hours.
    hours := substr(time_zone, 4, 3)::int;
    if hours between -12 and 14 and right(time_zone, 2) = '00' then
      plain := format('Etc/GMT%s%s', case when hours > 0 then '-' else '+' end, abs(hours));
    end if;
  end if;
  if pushq.time_zone_problem(plain) is not null then
    return time_zone;
  end if;
  return coalesce(plain, time_zone);
end $$;

-- A time zone as a phone reports it. The result is empty, for none, if the zone has the form of a name but is unknown:
-- a phone may know a new zone before the server does.
create or replace function pushq.reported_zone(time_zone text) returns text
language plpgsql stable strict as $$
declare
  plain text := pushq.plain_zone(time_zone);
begin
  if pushq.time_zone_problem(plain) is null then
    return plain;
  elsif octet_length(time_zone) <= 60 and time_zone ~ '^([A-Za-z_]+(/[A-Za-z_-]+){1,2}|GMT[+-][0-9]{4})$' then
    -- The quotes are ASCII, which every client encoding has: otherwise PostgreSQL would turn the notice into an error.
    raise notice 'the time zone "%" is unknown here: the device is registered without one', time_zone;
    return '';
  end if;
  return time_zone;
end $$;
